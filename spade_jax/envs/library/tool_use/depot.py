"""Two tools open boxes, each only some of them. One box names the next; the third holds a code."""

from collections.abc import Sequence

from spade_jax.envs.library.family import Mechanic, Turn, numbers
from spade_jax.envs.library.tool_use.family import (
    Called,
    ToolUseFamily,
    answer,
    call,
    code,
    seen,
    task,
)

ADVICE = {
    "below": "east has the boxes below {0}, west the others.",
    "from": "west has the boxes below {0}, east the others.",
}
THRESHOLDS = (4, 7, 12, 20, 30)


class DepotFamily(ToolUseFamily):
    """Five turns: one of three boxes may be looked for with the wrong tool."""

    name = "depot"
    skill = "tool selection"
    turns = 5
    tools = ("east", "west")
    mechanics = tuple(Mechanic(rule, threshold) for rule in ADVICE for threshold in THRESHOLDS)
    cues = (
        "Some boxes stand in the east and some in the west.",
        "Two doors lead to the boxes and only one is right.",
        "Each box tells where the next one is.",
    )

    def suits(self, mechanic: Mechanic, knob: int) -> bool:
        boxes = knob + 8
        return boxes <= 4 * mechanic.constant <= 3 * boxes

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule].format(mechanic.constant)

    def fits(self, start: list[int], calls: Sequence[Called], mechanic: Mechanic) -> bool:
        wanted = start[0]
        for tool, number, result in calls:
            if number == wanted and (result != "nothing") != (tool == _tool(number, mechanic)):
                return False
            if result.startswith("box"):
                wanted = numbers(result)[0]
        return True

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        if (value := code(observation)) is not None:
            return answer(value)
        named = [r for _, _, r in seen(turns, observation) if r.startswith("box")]
        box = numbers(named[-1])[0] if named else task(turns, observation)[0]
        return call(_tool(box, mechanic), box)


def _tool(box: int, mechanic: Mechanic) -> str:
    return "east" if (box < mechanic.constant) == (mechanic.rule == "below") else "west"
