"""The first call fails with a number; how that number mends the call is hidden."""

from collections.abc import Sequence

from spade_jax.envs.library.family import Mechanic, Turn, numbers
from spade_jax.envs.library.tool_use.family import (
    Called,
    ToolUseFamily,
    answer,
    call,
    code,
    task,
)

ADVICE = {
    "add": "After an error send the amount plus its number.",
    "take": "After an error send the amount less its number.",
    "twice": "After an error send the amount plus twice its number.",
    "only": "After an error send its number alone.",
}


class CourierFamily(ToolUseFamily):
    """Four turns: the failing call, two attempts to mend it, the answer."""

    name = "courier"
    skill = "error recovery"
    turns = 4
    tools = ("send",)
    mechanics = tuple(Mechanic(rule) for rule in ADVICE)
    cues = (
        "What is sent comes back once and must be sent again.",
        "The first try always fails.",
        "A mistake is named by a number and can be mended.",
    )

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        return {"rule": mechanic.rule}

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule]

    def fits(self, start: list[int], calls: Sequence[Called], mechanic: Mechanic) -> bool:
        amount = start[0]
        return all(
            number != _due(amount, numbers(result)[0], mechanic)
            for _, number, result in calls
            if result.startswith("error")
        )

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        amount = task(turns, observation)[0]
        if (value := code(observation)) is not None:
            return answer(value)
        if observation.startswith("error"):
            return call("send", _due(amount, numbers(observation)[0], mechanic))
        return call("send", amount)


def _due(amount: int, fee: int, mechanic: Mechanic) -> int:
    return {
        "add": amount + fee, "take": amount - fee, "twice": amount + 2 * fee, "only": fee
    }[mechanic.rule]  # fmt: skip
