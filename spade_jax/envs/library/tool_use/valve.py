"""A level is turned up or down to a goal; the tools may be swapped and every turn slips further."""

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

RULES = ("up/down", "down/up")


class ValveFamily(ToolUseFamily):
    """A rule is "raising/lowering". Three turns: one may show how the valve moves."""

    name = "valve"
    skill = "state modification"
    turns = 3
    tools = ("up", "down")
    mechanics = tuple(Mechanic(rule, c) for rule in RULES for c in (0, 1, 3))
    cues = (
        "A valve is turned until the mark is right.",
        "Each turn of the valve goes a little too far.",
        "The level has to be changed with care.",
    )

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        raises, lowers = mechanic.rule.split("/")
        return {"constant": mechanic.constant, "raises": raises, "lowers": lowers}

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        raises, lowers = mechanic.rule.split("/")
        return f"{raises} raises, {lowers} lowers, each goes {mechanic.constant} further."

    def candidates(self) -> list[Mechanic]:
        return [Mechanic(rule, c) for rule in RULES for c in range(5)]

    def fits(self, start: list[int], calls: Sequence[Called], mechanic: Mechanic) -> bool:
        at = start[0]
        for tool, number, result in calls:
            sign = 1 if tool == mechanic.rule.split("/")[0] else -1
            moved = max(0, min(99, at + sign * (number + mechanic.constant)))
            at = numbers(result)[0]
            if at != moved:
                return False
        return True

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        if (value := code(observation)) is not None:
            return answer(value)
        at, (_, goal) = numbers(observation)[0], task(turns, observation)
        raises, lowers = mechanic.rule.split("/")
        far = abs(goal - at)
        # A goal nearer than the slip needs an overshoot of exactly the slip first.
        number = far - mechanic.constant if far >= mechanic.constant else far
        return call(raises if goal > at else lowers, number)
