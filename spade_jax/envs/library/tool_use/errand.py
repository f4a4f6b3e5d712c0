"""Three instructions, one after the other: a mark is set, and lands off by the same amount."""

from collections.abc import Sequence

from spade_jax.envs.library.family import Mechanic, Turn, numbers
from spade_jax.envs.library.tool_use.family import Called, ToolUseFamily, answer, call

ADVICE = {
    "further": "set goes {0} further, so set {0} less.",
    "shorter": "set stays {0} short, so set {0} more.",
}
DONE = answer("ok")


class ErrandFamily(ToolUseFamily):
    """Eight turns: a call and an answer for each instruction, and two calls that may miss."""

    name = "errand"
    skill = "multi-step workflows"
    turns = 8
    reply = f"After each mark say {DONE}."
    tools = ("set",)
    mechanics = tuple(Mechanic(rule, c) for rule in ADVICE for c in (1, 2, 3, 4, 6))
    cues = (
        "One errand follows the other and each must be done.",
        "The mark is set anew for every visitor.",
        "A mark never lands where it is put.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule].format(mechanic.constant)

    def candidates(self) -> list[Mechanic]:
        return [Mechanic(rule, c) for rule in ADVICE for c in range(1, 8)]

    def fits(self, start: list[int], calls: Sequence[Called], mechanic: Mechanic) -> bool:
        return all(
            numbers(result)[0] == max(0, number + _shift(mechanic))
            for _, number, result in calls
        )

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        said = [text for text, _ in turns] + [observation]
        goal = next(numbers(text)[0] for text in reversed(said) if not text.startswith("at "))
        if observation == f"at {goal}":
            return DONE
        return call("set", max(0, goal - _shift(mechanic)))


def _shift(mechanic: Mechanic) -> int:
    return mechanic.constant if mechanic.rule == "further" else -mechanic.constant
