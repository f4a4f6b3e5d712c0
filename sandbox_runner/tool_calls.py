"""The tool calls in a reply, `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, and its
submitted answers, `<answer>...</answer>`.

A model wrote the text, so anything may stand in it: what is no call is named, never raised.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CALL, CALL_END = "<tool_call>", "</tool_call>"
ANSWER, ANSWER_END = "<answer>", "</answer>"

_TAG = re.compile(f"{CALL}|{CALL_END}")
# JSON has `<` and backslashes in strings alone, so where one is met outside, the body has ended.
# A tag flips inside and outside for whoever began before it: no character is read more than twice.
_BODY = re.compile(r'(?:[^"<\\]|"(?:[^"\\]|\\.)*+")*+', re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """A call to make; `arguments` is a JSON object."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class MalformedCall:
    """What stood where a call should, as written, and why it is none."""

    text: str
    reason: str


def split_reply(text: str) -> tuple[list[ToolCall | MalformedCall], str]:
    """Every call of a reply in order, and the text outside of them; takes time linear in `text`.

    A tag inside a JSON string is part of the string. A call ends unclosed where the next one opens
    or the text ends. Arguments may also be the object's JSON in a string. Give the reply without
    its thinking, or calls that were only considered count.
    """
    calls: list[ToolCall | MalformedCall] = []
    outside: list[str] = []
    position = 0
    while (found := text.find(CALL, position)) >= 0:
        outside.append(text[position:found])
        start = found + len(CALL)
        end = _BODY.match(text, start).end()
        if not text.startswith(CALL_END, end):
            tag = _TAG.search(text, start)
            end = tag.start() if tag else len(text)
        closed = text.startswith(CALL_END, end)
        body = text[start:end]
        calls.append(_read(body) if closed else MalformedCall(body, f"it has no {CALL_END}"))
        position = end + len(CALL_END) if closed else end
    outside.append(text[position:])
    return calls, "".join(outside)


def last_answer(outside: str) -> str | None:
    """The text of the last complete `<answer>` outside of calls; None without one."""
    start = outside.rfind(ANSWER, 0, max(0, outside.rfind(ANSWER_END)))
    if start < 0:
        return None
    start += len(ANSWER)
    return outside[start : outside.index(ANSWER_END, start)]


class _NotACall(ValueError):
    """Its text is the reason."""


def _read(body: str) -> ToolCall | MalformedCall:
    try:
        call = _object(_json(body, "it"), "it")
        for field in ("name", "arguments"):
            if field not in call:
                raise _NotACall(f"it has no {field}")
        name, arguments = call["name"], call["arguments"]
        if not isinstance(name, str) or not name:
            raise _NotACall(f"its name is {name!r}, expected text")
        if isinstance(arguments, str):
            arguments = _json(arguments, "the arguments' text")
        return ToolCall(name, _object(arguments, "its arguments"))
    except _NotACall as error:
        return MalformedCall(body, str(error))


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        detail = f"{error.msg} at character {error.pos}"
    except RecursionError:
        detail = "it nests too deeply"
    except ValueError as error:
        detail = str(error)
    raise _NotACall(f"{what} is not JSON: {detail}")


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _NotACall(f"{what} should be a JSON object, not {type(value).__name__}")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value
