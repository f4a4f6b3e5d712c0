"""Replies that validation tries on programs with tools: calls that nobody means, blind policies."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

from sandbox_runner.tool_schemas import read_tools
from sandbox_runner.tool_use import MOST_CALLS

Schemas = tuple[dict[str, Any], ...]
_UNKNOWN = '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>'
_BROKEN = '<tool_call>{"name": "no_such_tool", "arguments": {</tool_call>'
_UNCLOSED = '<tool_call>{"name": "no_such_tool"'
_EMPTY = "<answer></answer>"
_APPLE, _DONE = "<answer>apple</answer>", "<answer>done</answer>"
_LONG = "a long text " * 4_200  # 50 kB, all texts of one reply together
_EXTREMES = (10**12, 10**400, -1)  # no loop counts so far, no float is so large
_LARGE = 10**7  # a loop or a list once, but not in every call of a reply
_STRANGE = "\u039c \u6771\u4eac e\u0301 \u202e \x00 \ud800 </tool_call> \\"  # JSON can spell it
_MOST_ARGUMENTS = 16
_REQUESTS = 5  # that a program has at most
CALLING = frozenset({"calls", "plausible", "sweep"})  # policies that see what tools return
_VALUES = {
    "string": "apple", "integer": 7, "number": 7.5, "boolean": True, "array": [], "object": {},
    "null": None,
}  # fmt: skip
_TYPES = tuple(_VALUES)


def calls(schemas: Schemas) -> list[str]:
    """Replies of calls alone, of the wrong and the right types, with values that nobody expects;
    none of them answers."""
    found = [
        _all(schemas, _no_arguments),
        _UNKNOWN,
        _all(schemas, _plausible),
        _BROKEN,
        _all(schemas, lambda tool: {name: _wrong(spec) for name, spec in _properties(tool)}),
        _UNCLOSED,
        _all(schemas, lambda tool: {name: _STRANGE for name, _ in _properties(tool)}),
        _all(schemas, lambda tool: _no_arguments(tool) | {"no_such_argument": [{}]}),
        _all(schemas, _long_texts(schemas[:MOST_CALLS])),
        *(_all(schemas, _with_numbers(number)) for number in _EXTREMES),
        _all(schemas * MOST_CALLS, _with_numbers(_LARGE)),
    ]
    return list(dict.fromkeys(found))


def call_episode(schemas: Schemas, max_turns: int) -> list[str]:
    """`calls` in turn, again and again, `max_turns` actions; none for a program without tools."""
    if not schemas:
        return []
    replies = calls(schemas)
    return [replies[turn % len(replies)] for turn in range(max_turns)]


def replies(schemas: Schemas) -> list[str]:
    """`calls`, answers, and each of `calls` with an answer behind it, which is judged by the state
    that they left; nothing for a program without tools."""
    if not schemas:
        return []
    found = calls(schemas)
    return [*found, _EMPTY, _APPLE, *(reply + _APPLE for reply in found)]


def policies(schemas: Schemas, max_turns: int) -> dict[str, list[str]]:
    """Actions that no observation has influenced, by the name of the policy.

    "wrong" makes no call that is one, so nothing that it sees is the result of a tool.
    """
    if not schemas:
        return {}
    every = _all(schemas, _no_arguments)
    return {
        "no_answer": [_EMPTY] * max_turns,
        "zero": ["<answer>0</answer>"] * max_turns,
        "calls": _alternating([every, _DONE], max_turns),
        "wrong": _alternating([_UNKNOWN, _BROKEN], max_turns),
        "plausible": [_all(schemas, _plausible) + _DONE] * max_turns,
        "sweep": _sweep(schemas, max_turns),
    }


def texts(tools: str) -> list[str]:
    """What the schemas of `protocol.Started.tools` say, names of arguments too. The names of tools
    are left out, and choices where there are several: the Agent has to be told these."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                found.append(key)
                if key != "enum" or not isinstance(part, list) or len(set(map(str, part))) < 2:
                    walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)
        else:
            found.append(str(value))

    for schema in read_tools(tools) if tools else ():
        walk({key: part for key, part in schema["function"].items() if key != "name"})
    return found


def _all(schemas: Schemas, arguments: Callable[[dict], dict[str, Any]]) -> str:
    """One reply that calls every tool, as far as calls are made."""
    functions = [schema["function"] for schema in schemas[:MOST_CALLS]]
    return "\n".join(_call(tool, arguments(tool)) for tool in functions)


def _call(tool: dict, arguments: dict[str, Any]) -> str:
    call = {"name": tool["name"], "arguments": arguments}
    return f"<tool_call>{json.dumps(call)}</tool_call>"


def _sweep(schemas: Schemas, max_turns: int) -> list[str]:
    """Every tool with all that its schema lets choose from, then "done" for every request."""
    made = [
        _call(schema["function"], arguments)
        for schema in schemas
        for arguments in itertools.islice(_choices(schema["function"]), 2 * MOST_CALLS)
    ]
    calls = ["\n".join(made[i : i + MOST_CALLS]) for i in range(0, len(made), MOST_CALLS)]
    *before, last = calls[: max(1, max_turns + 1 - _REQUESTS)]
    return [*before, last + _DONE, *[_DONE] * max_turns][:max_turns]


def _choices(tool: dict) -> Iterator[dict[str, Any]]:
    names = [name for name, _ in _properties(tool)]
    for values in itertools.product(*(_options(spec) for _, spec in _properties(tool))):
        yield dict(zip(names, values, strict=True))


def _no_arguments(tool: dict) -> dict[str, Any]:
    return {}


def _plausible(tool: dict) -> dict[str, Any]:
    return {name: _value(spec) for name, spec in _properties(tool)}


def _long_texts(schemas: Schemas) -> Callable[[dict], dict[str, Any]]:
    """Arguments with `_LONG` in equal parts for every text of these tools."""
    specs = [spec for schema in schemas for _, spec in _properties(schema["function"])]
    part = _LONG[: len(_LONG) // max(1, sum(_declared(spec) == "string" for spec in specs))]
    return lambda tool: {
        name: part if _declared(spec) == "string" else _value(spec)
        for name, spec in _properties(tool)
    }


def _with_numbers(number: int) -> Callable[[dict], dict[str, Any]]:
    return lambda tool: {
        name: number if _may_be_number(spec) else _value(spec) for name, spec in _properties(tool)
    }


def _may_be_number(spec: Any) -> bool:
    """Also where a schema does not say, or says what JSON schema does not know."""
    return any(kind in ("integer", "number") or kind not in _TYPES for kind in _kinds(spec))


def _properties(tool: dict) -> list[tuple[str, Any]]:
    found = tool.get("parameters", {}).get("properties")
    return list(found.items())[:_MOST_ARGUMENTS] if isinstance(found, dict) else []


def _options(spec: Any) -> list[Any]:
    choices = spec.get("enum") if isinstance(spec, dict) else None
    if isinstance(choices, list) and choices:
        return choices
    declared = _declared(spec)
    return [True, False] if declared == "boolean" else [_VALUES[declared]]


def _value(spec: Any) -> Any:
    return _options(spec)[0]


def _wrong(spec: Any) -> Any:
    return "seven" if _declared(spec) in ("integer", "number", "boolean", "object") else 7


def _declared(spec: Any) -> str:
    return next((kind for kind in _kinds(spec) if kind in _TYPES), "string")


def _kinds(spec: Any) -> list[Any]:
    declared = spec.get("type") if isinstance(spec, dict) else None
    return declared if isinstance(declared, list) else [declared]


def _alternating(actions: list[str], count: int) -> list[str]:
    return [actions[turn % len(actions)] for turn in range(count)]
