"""Qwen3's dialect of ChatML: thinking, tool schemas, tool calls and their results."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from spade_jax.text.actions import THOUGHT, THOUGHT_END
from spade_jax.text.chat import Message, check_opening, with_tools
from spade_jax.text.chatml import ChatML
from spade_jax.text.errors import TextError
from spade_jax.text.tokenizer import Tokenizer
from spade_jax.text.tool_schemas import Tools, to_json

NO_THINKING = "<think>\n\n</think>\n\n"


class Qwen3Chat(ChatML):
    """Qwen3's template.

    The template shows a reply's thinking until the next user message and drops it from then on.
    `extend` keeps what was sampled, also where the template would not: `resume` tells.
    """

    def __init__(self, tokenizer: Tokenizer, thinking: bool | None = None) -> None:
        """`thinking`: False opens each reply with an empty thought; True and None, the template's
        default, leave it to the model whether to think."""
        super().__init__(tokenizer)
        self._thinking = thinking
        opening = "assistant\n" + (NO_THINKING if thinking is False else "")
        self._prompt = [self._start, *tokenizer.encode(opening)]

    def reply(self, content: str) -> list[int]:
        """Thinking stands in `content`, if there is any: `<think>...</think>...`.

        Raises TextError if there is some and this renderer turns thinking off.
        """
        reasoning, content = _split_thinking(content)
        if self._thinking is not False:
            return super().reply(_thought(reasoning) + content.lstrip("\n"))
        if reasoning:
            raise TextError("a reply with thinking cannot follow a prompt without")
        return super().reply(content.lstrip("\n"))

    def resume(
        self, row: Sequence[int], messages: Sequence[Message], tools: Tools = ()
    ) -> tuple[int, list[int]]:
        """Thinking is dropped, and so is the empty thought of a prompt without. Only where there is
        some is the conversation rendered anew and compared with the row."""
        check_opening(messages)
        if self._thinking is not False and not any(map(_may_think, messages)):
            return super().resume(row, messages)
        frames = [self._frame(body) for body in self._bodies(messages, tools)] + [self._prompt]
        ids, kept = list(map(int, row)), 0
        for number, frame in enumerate(frames):
            new = frame if number == 0 else [*self._between, *frame]
            end = ids.index(self._end, kept) + 1 if self._end in ids[kept:] else len(ids)
            if not self._same(ids[kept:end], new):
                kept_of_new = _common_prefix(ids[kept:end], new)
                return kept + kept_of_new, self._joined([new[kept_of_new:], *frames[number + 1 :]])
            kept = end
        return kept, []

    def _bodies(self, messages: Sequence[Message], tools: Tools) -> list[str]:
        return self._turns(with_tools("qwen3", messages, tools, "\n\n"))

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

    def _same(self, old: list[int], new: list[int]) -> bool:
        """Whether a frame that may have been sampled has the text of one that was encoded."""
        if old == new:
            return True
        if self._start not in new or old[-1:] != new[-1:]:
            return False
        head = new.index(self._start) + 1
        text = self._tokenizer.decode(old[head:-1])
        return old[:head] == new[:head] and self._tokenizer.encode(text) == new[head:-1]


def _split_thinking(text: str) -> tuple[str, str]:
    """`(reasoning, content)` of a reply, cut where Qwen3's template cuts it.

    The template's rule is not `after_thinking`'s: to it a thought that is never closed is content,
    and what stands between two ends of thoughts is nothing.
    """
    if THOUGHT_END not in text:
        return "", text
    before, *_, after = text.split(THOUGHT_END)
    reasoning = before.rstrip("\n").split(THOUGHT)[-1].lstrip("\n")
    return reasoning, after.lstrip("\n")


def _is_query(message: Message) -> bool:
    """Whether the user says it, not a tool whose result was written as the user's."""
    text = message.content
    is_result = text.startswith("<tool_response>") and text.endswith("</tool_response>")
    return message.role == "user" and not is_result


def _may_think(message: Message) -> bool:
    """Whether the template may show the message otherwise later than now."""
    return message.has_extras or (message.role == "assistant" and THOUGHT_END in message.content)


def _assistant(message: Message, recent: bool, last: bool) -> str:
    """`recent`: no query follows, so that thinking is still shown."""
    reasoning, content = message.reasoning, message.content
    if reasoning is None:
        reasoning, content = _split_thinking(content)
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
    return f'<tool_call>\n{{"name": "{name}", "arguments": {to_json(arguments)}}}\n</tool_call>'


def _results(contents: Iterable[str]) -> str:
    return "user" + "".join(f"\n<tool_response>\n{text}\n</tool_response>" for text in contents)


def _common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))
