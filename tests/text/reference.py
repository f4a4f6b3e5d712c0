"""What public code makes of a conversation.

That is the model's own jinja template, rendered to one string, and the `tokenizers` library on that
string. Special tokens that a text spells are injected there.
"""

import functools
import json
from pathlib import Path

import jinja2.sandbox
import tokenizers

from spade_jax.text import Message, ToolCall

GOLDEN = Path(__file__).parent / "golden"


def reference_text(template: str, messages, tools=(), **options) -> str:
    plain = [as_json(message) for message in messages]
    return _template(template).render(messages=plain, tools=tools or None, **options)


@functools.cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string((GOLDEN / f"{name}_template.jinja").read_text("utf-8"))


def reference_ids(path: Path, text: str) -> list[int]:
    return _backend(path).encode(text, add_special_tokens=False).ids


@functools.cache
def _backend(path: Path) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer.from_file(str(path))
    backend.no_truncation()
    backend.no_padding()
    return backend


def as_json(message: Message) -> dict:
    found = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        found["reasoning_content"] = message.reasoning
    if message.tool_calls:
        found["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return found


def as_message(found: dict) -> Message:
    calls = [entry["function"] for entry in found.get("tool_calls", [])]
    return Message(
        found["role"],
        found["content"],
        tuple(ToolCall(call["name"], call["arguments"]) for call in calls),
        found.get("reasoning_content"),
    )
