"""Replies that validation tries on programs with tools: calls that nobody means, blind policies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sandbox_runner.tool_schemas import read_tools

Schemas = tuple[dict[str, Any], ...]
_UNKNOWN = '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>'
_BROKEN = '<tool_call>{"name": "no_such_tool", "arguments": {</tool_call>'
_UNCLOSED = '<tool_call>{"name": "no_such_tool"'
_EMPTY = "<answer></answer>"
_LONG = "a long text " * 4_200  # 50 kB
_STRANGE = "\u039c \u6771\u4eac e\u0301 \u202e \x00 \ud800 </tool_call> \\"  # JSON can spell it
_MOST_TOOLS = 16  # called in one reply
_MOST_ARGUMENTS = 16
_NOT_TOLD = ("name", "type", "required", "enum")
_VALUES = {
    "string": "apple", "integer": 7, "number": 7.5, "boolean": True, "array": [], "object": {},
    "null": None,
}  # fmt: skip


def calls(schemas: Schemas) -> list[str]:
    """Replies of calls alone, of the wrong and the right types; none of them answers."""
    return [
        _all(schemas, _no_arguments),
        _UNKNOWN,
        _all(schemas, _plausible),
        _BROKEN,
        _all(schemas, lambda tool: {name: _wrong(spec) for name, spec in _properties(tool)}),
        _UNCLOSED,
        _all(schemas, lambda tool: {name: _STRANGE for name, _ in _properties(tool)}),
        _all(schemas, lambda tool: _no_arguments(tool) | {"no_such_argument": [{}]}),
        _all(schemas[:1], lambda tool: {name: _LONG for name, _ in _properties(tool)[:2]}),
    ]


def call_episode(schemas: Schemas, max_turns: int) -> list[str]:
    """`calls` in turn, again and again, `max_turns` actions; none for a program without tools."""
    if not schemas:
        return []
    replies = calls(schemas)
    return [replies[turn % len(replies)] for turn in range(max_turns)]


def replies(schemas: Schemas) -> list[str]:
    """`calls`, and answers with and without one; nothing for a program without tools."""
    if not schemas:
        return []
    found = calls(schemas)
    return [*found, _EMPTY, "<answer>apple</answer>", f"{found[0]}<answer>apple</answer>"]


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
        "calls": _alternating([every, "<answer>done</answer>"], max_turns),
        "wrong": _alternating([_UNKNOWN, _BROKEN], max_turns),
    }


def texts(tools: str) -> list[str]:
    """What the schemas of `protocol.Started.tools` tell beside names, types and choices."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            told = value.items()
            walk([part for key, part in told if isinstance(part, dict) or key not in _NOT_TOLD])
        elif isinstance(value, list):
            for part in value:
                walk(part)
        else:
            found.append(str(value))

    for schema in read_tools(tools) if tools else ():
        walk(schema["function"])
    return found


def _all(schemas: Schemas, arguments: Callable[[dict], dict[str, Any]]) -> str:
    """One reply that calls every tool."""
    functions = [schema["function"] for schema in schemas[:_MOST_TOOLS]]
    calls = [{"name": tool["name"], "arguments": arguments(tool)} for tool in functions]
    return "\n".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls)


def _no_arguments(tool: dict) -> dict[str, Any]:
    return {}


def _plausible(tool: dict) -> dict[str, Any]:
    return {name: _value(spec) for name, spec in _properties(tool)}


def _properties(tool: dict) -> list[tuple[str, Any]]:
    found = tool.get("parameters", {}).get("properties")
    return list(found.items())[:_MOST_ARGUMENTS] if isinstance(found, dict) else []


def _value(spec: Any) -> Any:
    choices = spec.get("enum") if isinstance(spec, dict) else None
    if isinstance(choices, list) and choices:
        return choices[0]
    return _VALUES.get(_declared(spec), "apple")


def _wrong(spec: Any) -> Any:
    return "seven" if _declared(spec) in ("integer", "number", "boolean", "object") else 7


def _declared(spec: Any) -> str:
    kind = spec.get("type") if isinstance(spec, dict) else None
    return kind if isinstance(kind, str) else "string"


def _alternating(actions: list[str], count: int) -> list[str]:
    return [actions[turn % len(actions)] for turn in range(count)]
