"""A transcript for a person to read: tool calls look like calls, results stand below them."""

import json
from collections.abc import Iterable, Iterator

from sandbox_runner.tool_calls import MalformedCall, ToolCall, split_reply
from spade_jax.rollout import Episode
from spade_jax.text import Message, Tools, after_thinking

INDENT = "  "


def readable(episode: Episode) -> str:
    """A game's messages as they were said; of tool use also what could be called, and each call
    on a line."""
    if not episode.tools:
        return "\n".join(f"{said.role}: {said.content}" for said in episode.transcript)
    return "\n".join([*_tools(episode.tools), *_messages(episode.transcript)])


def _tools(tools: Tools) -> Iterator[str]:
    for tool in tools:
        function = tool["function"]
        yield f"tool {function['name']}: {function.get('description', '')}".rstrip(": ")


def _messages(transcript: Iterable[Message]) -> Iterator[str]:
    for said in transcript:
        if said.role == "tool":
            yield f"{INDENT}= " + said.content.replace("\n", f"\n{INDENT}  ")
        elif said.role == "assistant":
            yield from _reply(said.content)
        else:
            yield f"{said.role}: {said.content}"


def _reply(content: str) -> Iterator[str]:
    said = after_thinking(content)
    calls, outside = split_reply(said)
    prose = f"{content.removesuffix(said)}{outside}".strip()
    yield f"assistant: {prose}".rstrip()
    yield from (INDENT + _call(call) for call in calls)


def _call(call: ToolCall | MalformedCall) -> str:
    """As a call in Python. Lone surrogates, which JSON can spell and nobody can print, are `?`."""
    if isinstance(call, MalformedCall):
        return f"malformed call ({call.reason}): {call.text}"
    given = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items()
    )
    return f"{call.name}({given})".encode("utf-8", "replace").decode()
