"""Qwen3's dialect of ChatML: thinking, tool schemas, tool calls and their results."""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import jinja2

from spade_jax.text.chat import Message
from spade_jax.text.chatml import TEMPLATES, ChatML, Tools
from spade_jax.text.errors import TextError
from spade_jax.text.tokenizer import Tokenizer

NO_THINKING = "<think>\n\n</think>\n\n"


class Qwen3Chat(ChatML):
    """Qwen3's template.

    The template shows a reply's thinking until the next user message and drops it from then on:
    `extend` with tool results goes on with what was sampled, `extend` with a user message keeps
    thinking that the template would not, and `resume` says from where on.
    """

    def __init__(self, tokenizer: Tokenizer, thinking: bool | None = None) -> None:
        """`thinking`: False opens each reply with an empty thought; True and None, the template's
        default, leave it to the model whether to think."""
        super().__init__(tokenizer)
        self._thinking = thinking
        opening = "assistant\n" + (NO_THINKING if thinking is False else "")
        self._prompt = [self._start, *tokenizer.encode(opening)]
        self._tools = (TEMPLATES / "qwen3_tools.txt.j2").read_text("utf-8")

    def reply(self, content: str) -> list[int]:
        """Thinking stands in `content`, if there is any: `<think>...</think>...`.

        Raises TextError if there is some and this renderer turns thinking off.
        """
        reasoning, content = split_thinking(content)
        if self._thinking is not False:
            return super().reply(_thought(reasoning) + content.lstrip("\n"))
        if reasoning:
            raise TextError("a reply with thinking cannot follow a prompt without")
        return super().reply(content.lstrip("\n"))

    def _bodies(self, messages: Sequence[Message], tools: Tools) -> list[str]:
        first = messages[0].content if messages[0].role == "system" else None
        rest = messages if first is None else messages[1:]
        if tools:
            template = jinja2.Template(self._tools, trim_blocks=True, lstrip_blocks=True)
            schemas = template.render(tools=[_to_json(tool) for tool in tools])
            first = schemas if first is None else f"{first}\n\n{schemas}"
        system = [] if first is None else [f"system\n{first}"]
        return system + self._turns(rest)

    def _turns(self, messages: Sequence[Message]) -> list[str]:
        queries = [at for at, message in enumerate(messages) if _is_query(message)]
        bodies = []
        for is_tool, run in groupby(enumerate(messages), lambda item: item[1].role == "tool"):
            if is_tool:
                bodies.append(_results(message.content for _, message in run))
                continue
            for at, message in run:
                if message.role == "assistant":
                    recent = bool(queries) and at > queries[-1]
                    bodies.append(_assistant(message, recent, at == len(messages) - 1))
                else:
                    bodies.append(f"{message.role}\n{message.content}")
        return bodies


def split_thinking(text: str) -> tuple[str, str]:
    """`(reasoning, content)` of a reply, cut where Qwen3's template cuts it."""
    if "</think>" not in text:
        return "", text
    before, *_, after = text.split("</think>")
    reasoning = before.rstrip("\n").split("<think>")[-1].lstrip("\n")
    return reasoning, after.lstrip("\n")


def _is_query(message: Message) -> bool:
    """Whether the user says it, not a tool whose result was written as the user's."""
    text = message.content
    is_result = text.startswith("<tool_response>") and text.endswith("</tool_response>")
    return message.role == "user" and not is_result


def _assistant(message: Message, recent: bool, last: bool) -> str:
    """`recent`: no query follows, so that thinking is still shown."""
    reasoning, content = message.reasoning, message.content
    if reasoning is None:
        reasoning, content = split_thinking(content)
    shown = content
    if recent and (last or reasoning):
        shown = _thought(reasoning) + content.lstrip("\n")
    calls = [_call(call.name, call.arguments) for call in message.tool_calls]
    gap = "\n" if calls and content else ""
    return f"assistant\n{shown}{gap}" + "\n".join(calls)


def _thought(reasoning: str) -> str:
    stripped = reasoning.strip("\n")
    return f"<think>\n{stripped}\n</think>\n\n"


def _call(name: str, arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {_to_json(arguments)}}}\n</tool_call>'


def _results(contents: Iterable[str]) -> str:
    return "user" + "".join(f"\n<tool_response>\n{text}\n</tool_response>" for text in contents)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
