"""A number is shown; a hidden rule turns it into the answer."""

from spade_jax.envs.library.family import Mechanic
from spade_jax.envs.library.rounds import RoundsFamily

ADVICE = {"add": "Add {0} to the number.", "take": "Take {0} from the number."}


class RuleFamily(RoundsFamily):
    name = "rule"
    skill = "mathematical reasoning"
    mechanics = tuple(Mechanic(rule, c) for rule in ADVICE for c in (1, 2, 3, 4, 6))
    cues = (
        "Every number goes in and another one comes out.",
        "What it shows is always changed by the same amount.",
        "It answers each number with a partner.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule].format(mechanic.constant)

    def candidates(self) -> list[Mechanic]:
        return [Mechanic(rule, c) for rule in ADVICE for c in range(1, 11)]

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        if mechanic.rule == "add":
            return question[0] + mechanic.constant
        return max(0, question[0] - mechanic.constant)
