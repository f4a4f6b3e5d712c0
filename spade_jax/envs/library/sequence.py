"""A row with a constant step goes on; how far, and what is added at the end, is hidden."""

from spade_jax.envs.library.family import Mechanic
from spade_jax.envs.library.rounds import RoundsFamily

STEPS = {"once": 1, "twice": 2}


class SequenceFamily(RoundsFamily):
    name = "sequence"
    skill = "pattern recognition"
    mechanics = tuple(Mechanic(rule, c) for rule in STEPS for c in range(2))
    cues = (
        "Marks follow each other in even steps.",
        "The next mark of the row is missing.",
        "Each row grows by its own step.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return f"Go on by the step {mechanic.rule}, then add {mechanic.constant}."

    def candidates(self) -> list[Mechanic]:
        return [Mechanic(rule, constant) for rule in STEPS for constant in range(4)]

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        step = question[2] - question[1]
        return question[2] + STEPS[mechanic.rule] * step + mechanic.constant
