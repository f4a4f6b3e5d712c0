"""Two numbers are joined by a hidden operation."""

from collections.abc import Sequence

from spade_jax.envs.library.family import Mechanic, Turn
from spade_jax.envs.library.rounds import RoundsFamily

ADVICE = {
    "sum": "Add both numbers.",
    "difference": "Take the second number from the first.",
    "larger": "Answer the larger number.",
    "smaller": "Answer the smaller number.",
}


class BalanceFamily(RoundsFamily):
    name = "balance"
    skill = "mathematical reasoning"
    mechanics = tuple(Mechanic(rule) for rule in ADVICE)
    cues = (
        "Two loads belong together and one weight answers them.",
        "Both dishes of the scale are looked at.",
        "Both sides are weighed before anything is paid.",
    )

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        return {"rule": mechanic.rule}

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule]

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        """A difference is never asked for where it would be negative."""
        asked = [self.question(text) for text in (*(text for text, _ in turns), observation)]
        possible = super().beliefs(turns, observation)
        if any(first < second for first, second in asked):
            return [mechanic for mechanic in possible if mechanic.rule != "difference"]
        return possible

    def candidates(self) -> tuple[Mechanic, ...]:
        return self.mechanics

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        if mechanic.rule == "sum":
            return sum(question)
        if mechanic.rule == "difference":
            return question[0] - question[1]
        return (max if mechanic.rule == "larger" else min)(question)
