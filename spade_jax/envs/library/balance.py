"""Two numbers, joined by a hidden operation and a hidden extra weight."""

from spade_jax.envs.library.family import Mechanic
from spade_jax.envs.library.rounds import RoundsFamily

ADVICE = {
    "sum": "Add both numbers and {0} more.",
    "difference": "Take the second number from the first and add {0}.",
}


class BalanceFamily(RoundsFamily):
    name = "balance"
    skill = "mathematical reasoning"
    mechanics = tuple(Mechanic(rule, c) for rule in ADVICE for c in range(3))
    cues = (
        "Two loads belong together and one weight answers them.",
        "The dish itself is heavy and must be counted.",
        "Both sides are weighed before anything is paid.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule].format(mechanic.constant)

    def candidates(self) -> tuple[Mechanic, ...]:
        return self.mechanics

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        sign = 1 if mechanic.rule == "sum" else -1
        return question[0] + sign * question[1] + mechanic.constant
