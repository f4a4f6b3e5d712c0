"""A number is shown; a hidden rule turns it into the answer."""

from spade_jax.envs.library.family import Mechanic
from spade_jax.envs.library.rounds import RoundsFamily

ADVICE = {
    "add": "Add {0} to the number.",
    "take": "Take {0} from the number.",
    "mirror": "Take the number from {0}.",
}


class RuleFamily(RoundsFamily):
    name = "rule"
    skill = "mathematical reasoning"
    mechanics = tuple(Mechanic(rule, c) for rule in ("add", "take") for c in (1, 2, 3, 4, 6))
    cues = (
        "Every number goes in and another one comes out.",
        "What it shows is always changed by the same amount.",
        "It answers each number with a partner.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule].format(self.effective(mechanic, knob).constant)

    def effective(self, mechanic: Mechanic, knob: int) -> Mechanic:
        shift = knob if mechanic.rule == "mirror" else 0
        return Mechanic(mechanic.rule, mechanic.constant + shift)

    def candidates(self) -> list[Mechanic]:
        small = [Mechanic(rule, c) for rule in ("add", "take") for c in range(1, 11)]
        return small + [Mechanic("mirror", c) for c in range(4, 80)]

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        if mechanic.rule == "add":
            return question[0] + mechanic.constant
        if mechanic.rule == "take":
            return max(0, question[0] - mechanic.constant)
        return max(0, mechanic.constant - question[0])
