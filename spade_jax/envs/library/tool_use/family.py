"""What the tool-use families share: calls with one number each, and an answer at the end."""

import json
import re
from collections.abc import Iterable, Sequence

import numpy as np

from spade_jax.envs.library.family import TEMPLATES, Family, Mechanic, Turn, numbers

ANSWER_FORMAT = "End with <answer>number</answer>."
Called = tuple[str, int, str]  # tool, number, result
_CALL = re.compile(r'\{"name": "(\w+)", "arguments": \{"number": (\d+)\}\}')


def call(tool: str, number: int) -> str:
    text = json.dumps({"name": tool, "arguments": {"number": number}})
    return f"<tool_call>{text}</tool_call>"


def answer(value: object) -> str:
    return f"<answer>{value}</answer>"


def calls_of(reply: str) -> list[tuple[str, int]]:
    """(tool, number) of every call of an expert's reply."""
    return [(tool, int(number)) for tool, number in _CALL.findall(reply)]


def seen(turns: Sequence[Turn], observation: str) -> list[Called]:
    """Every call so far; a result is one line of what came back."""
    later = [text for text, _ in turns[1:]] + [observation]
    return [
        (tool, number, result)
        for (_, reply), results in zip(turns, later, strict=False)
        for (tool, number), result in zip(calls_of(reply), results.splitlines(), strict=False)
    ]


def task(turns: Sequence[Turn], observation: str) -> list[int]:
    """The numbers of the first observation."""
    return numbers(turns[0][0] if turns else observation)


def code(observation: str) -> int | None:
    """The number that a tool reveals once its work is done, as in "paid, code 41"."""
    return numbers(observation)[-1] if "code" in observation else None


class ToolUseFamily(Family):
    """A subclass gives `candidates`, `fits` and `ideal`; `tools` are the names of its tools.

    An action is the whole reply, and an observation that follows calls holds a line for each.
    """

    domain = "tool_use"
    reply = ANSWER_FORMAT
    folders = (TEMPLATES / "tool_use",)
    tools: tuple[str, ...]

    @property
    def phrases(self) -> tuple[str, ...]:
        spoken = [call(tool, 7) for tool in self.tools] + [answer(7)]
        return tuple(part for text in spoken for part in text.split("7"))

    def candidates(self) -> Iterable[Mechanic]:
        """Effective mechanics worth considering before anything was seen."""
        return self.mechanics

    def fits(self, start: list[int], calls: Sequence[Called], mechanic: Mechanic) -> bool:
        """Whether a mechanic could have given these results; `start` are the numbers of the first
        observation."""
        raise NotImplementedError

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        start, calls = task(turns, observation), seen(turns, observation)
        return [m for m in self.candidates() if self.fits(start, calls, m)]

    def spoken(self, action: str) -> str:
        return action

    def careless(self, turns: Sequence[Turn], observation: str, rng: np.random.Generator) -> str:
        top = max(numbers(observation), default=9)
        number = min(99, int(rng.integers(0, top + 6)))
        if rng.random() < 0.3:
            return answer(number)
        return call(self.tools[int(rng.integers(len(self.tools)))], number)
