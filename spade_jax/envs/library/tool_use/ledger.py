"""Rows are read by number, and every reading is off by the same amount."""

from collections.abc import Sequence

from spade_jax.envs.library.family import Mechanic, Turn, numbers
from spade_jax.envs.library.tool_use.family import Called, ToolUseFamily, answer, call, task

ADVICE = {
    "later": "read gives the row {0} later, so read {0} less.",
    "earlier": "read gives the row {0} earlier, so read {0} more.",
}


class LedgerFamily(ToolUseFamily):
    """Three turns: one reading may miss."""

    name = "ledger"
    skill = "data retrieval"
    turns = 3
    tools = ("read",)
    mechanics = tuple(Mechanic(rule, c) for rule in ADVICE for c in (1, 2, 3, 4, 6))
    cues = (
        "What happened is written in a long book of rows.",
        "Whoever looks something up finds the wrong row first.",
        "The rows of the list are counted in a strange way.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule].format(mechanic.constant)

    def candidates(self) -> list[Mechanic]:
        return [Mechanic(rule, c) for rule in ADVICE for c in range(1, 8)]

    def fits(self, start: list[int], calls: Sequence[Called], mechanic: Mechanic) -> bool:
        return all(
            result == "no row" or numbers(result)[0] == number + _shift(mechanic)
            for _, number, result in calls
        )

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        row = task(turns, observation)[0]
        if "holds" in observation and numbers(observation)[0] == row:
            return answer(numbers(observation)[1])
        return call("read", max(0, row - _shift(mechanic)))


def _shift(mechanic: Mechanic) -> int:
    return mechanic.constant if mechanic.rule == "later" else -mechanic.constant
