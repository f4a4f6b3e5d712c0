"""Two tools give a stock and a rate; what to pay with them is hidden."""

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
    "sum": "Ask stock and rate, then pay both together.",
    "difference": "Ask stock and rate, then pay the stock less the rate.",
    "stock": "Ask stock and rate, then pay the stock.",
    "rate": "Ask stock and rate, then pay the rate.",
}


class OrderFamily(ToolUseFamily):
    """Four turns: one reply with two calls, two payments at most, the answer."""

    name = "order"
    skill = "API orchestration"
    turns = 4
    tools = ("stock", "rate", "pay")
    mechanics = tuple(Mechanic(rule) for rule in ADVICE)
    cues = (
        "An order is asked about at two desks before it is paid.",
        "Stock and rate belong to every order.",
        "Nobody tells what an order costs.",
    )

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        return {"rule": mechanic.rule}

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule]

    def fits(self, start: list[int], calls: Sequence[Called], mechanic: Mechanic) -> bool:
        known = _known(calls)
        return len(known) < 2 or all(
            number != _due(known, mechanic)
            for tool, number, result in calls
            if tool == "pay" and result == "refused"
        )

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        if (value := code(observation)) is not None:
            return answer(value)
        order, known = task(turns, observation)[0], _known(seen(turns, observation))
        if len(known) == 2:
            return call("pay", _due(known, mechanic))
        return "\n".join(call(tool, order) for tool in ("stock", "rate") if tool not in known)


def _known(calls: Sequence[Called]) -> dict[str, int]:
    """What the tools have said about the order: "stock" and "rate"."""
    return {
        tool: numbers(result)[0]
        for tool, _, result in calls
        if result.startswith(tool) and tool != "pay"
    }


def _due(known: dict[str, int], mechanic: Mechanic) -> int:
    stock, rate = known["stock"], known["rate"]
    amounts = {"sum": stock + rate, "difference": stock - rate, "stock": stock, "rate": rate}
    return amounts[mechanic.rule]
