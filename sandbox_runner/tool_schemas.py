"""The schemas of an environment's tools, in the OpenAI form of functions."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from sandbox_runner.types import EnvError

MOST_TOOLS = 64
_DEEPEST = 32  # objects and lists in each other, of one schema
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def check_tools(value: Any) -> str:
    """What `get_tools` returned, as JSON that `read_tools` reads. Raises EnvError, and TypeError,
    ValueError or RecursionError for what JSON cannot hold."""
    if type(value) not in (list, tuple):
        raise EnvError("contract", f"get_tools must return a list, not {type(value).__name__}")
    if not value:
        raise EnvError("contract", "get_tools gives no tool; a game has no such method")
    if len(value) > MOST_TOOLS:
        raise EnvError("limits", f"{len(value)} tools, at most {MOST_TOOLS} allowed")
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    read_tools(text)
    return text


def read_tools(text: str) -> tuple[dict[str, Any], ...]:
    """The schemas in a JSON list. Raises EnvError for what is no list of distinct functions."""
    try:
        schemas = msgspec.json.decode(text, type=list[dict[str, Any]])
        faults = [_schema_fault(schema) for schema in schemas]
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise EnvError("contract", f"get_tools must return JSON objects: {error}") from None
    if len(schemas) > MOST_TOOLS:
        raise EnvError("limits", f"{len(schemas)} tools, at most {MOST_TOOLS} allowed")
    if fault := next(filter(None, faults), None):
        raise EnvError("contract", f"get_tools: {fault}")
    names = [schema["function"]["name"] for schema in schemas]
    if twice := [name for name in names if names.count(name) > 1]:
        raise EnvError("contract", f"get_tools names {twice[0]} twice")
    return tuple(schemas)


def _schema_fault(schema: dict[str, Any]) -> str | None:
    function = schema.get("function")
    if schema.get("type") != "function" or not isinstance(function, dict):
        return 'a schema must be {"type": "function", "function": {...}}'
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"a tool is named {name!r:.80}, expected 1 to 64 of A-Z a-z 0-9 _ . -"
    for field, kind in (("description", str), ("parameters", dict)):
        if not isinstance(function.get(field, kind()), kind):
            return f"the {field} of {name} must be a {kind.__name__}"
    if not _is_shallow(schema, _DEEPEST):
        return f"the schema of {name} nests more than {_DEEPEST} deep"
    return None


def _is_shallow(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_shallow(part, levels - 1) for part in parts)
