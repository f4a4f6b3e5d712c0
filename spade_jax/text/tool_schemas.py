"""Tool schemas as the text that a chat template shows before the conversation.

A model wrote them, so they are text like any other: nothing in them makes a special id.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

TEMPLATES = Path(__file__).parent / "templates"

Tools = Sequence[Mapping[str, Any]]  # JSON objects in the OpenAI form of functions

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, lstrip_blocks=True
)


def tools_text(template: str, tools: Tools) -> str:
    """`templates/TEMPLATE_tools.txt.j2` filled in: `tools` are schemas as JSON, `functions` the
    name, description and argument names of each."""
    text = _ENVIRONMENT.get_template(f"{template}_tools.txt.j2").render(
        tools=[to_json(tool) for tool in tools], functions=[_function(tool) for tool in tools]
    )
    return text.rstrip("\n")


def to_json(value: Any) -> str:
    """As the public templates write it."""
    return json.dumps(value, ensure_ascii=False)


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = _object(tool.get("function"))
    properties = _object(_object(function.get("parameters")).get("properties"))
    return {
        "name": function.get("name", ""),
        "description": function.get("description", ""),
        "arguments": list(properties),
    }


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
