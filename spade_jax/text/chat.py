"""Conversations to token ids. A conversation is built from segments and only grows, unless its
template rewrites what was said.

Each message is encoded by itself and framed by special ids, so nothing is ever tokenised twice, and
no text, whoever wrote it, can open or close a turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sandbox_runner.tool_calls import ToolCall
from spade_jax.text.errors import TextError
from spade_jax.text.tokenizer import Tokenizer
from spade_jax.text.tool_schemas import Tools, tools_text

ROLES: tuple[str, ...] = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Message:
    """One turn. Raises TextError for a role that is not in ROLES.

    Attributes:
        tool_calls: what the assistant calls after `content`, if it is not spelled in it.
        reasoning: what the assistant thought before `content`, if it is not spelled in it.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise TextError(f"no role is named {self.role!r}; known are {', '.join(ROLES)}")
        if self.role != "assistant" and self.has_extras:
            raise TextError(f"only the assistant thinks and calls tools, not {self.role!r}")

    @property
    def has_extras(self) -> bool:
        """Whether it says more than `content`, which not every template has a place for."""
        return bool(self.tool_calls) or self.reasoning is not None


def check_opening(messages: Sequence[Message]) -> None:
    """Raises TextError if the last message is missing or is the assistant's."""
    if not messages:
        raise TextError("a conversation cannot open with no message")
    if messages[-1].role == "assistant":
        raise TextError("the assistant spoke last; its next turn needs a message before it")


def check_extension(messages: Sequence[Message]) -> None:
    """Raises TextError if there is no message, or one of the assistant: those are sampled."""
    if not messages:
        raise TextError("a conversation cannot go on with no message")
    if any(message.role == "assistant" for message in messages):
        raise TextError("an assistant turn cannot be appended as text after a sampled one")


def check_plain(messages: Sequence[Message]) -> None:
    """Raises TextError if a message has what a template of role and content would drop."""
    if any(message.has_extras for message in messages):
        raise TextError("this template has no place for tool calls or reasoning")


def with_tools(
    template: str, messages: Sequence[Message], tools: Tools, gap: str = "\n"
) -> Sequence[Message]:
    """The messages with the tools as a system message, or as the end of the one that is there."""
    if not tools:
        return messages
    text = tools_text(template, tools)
    if messages[0].role == "system":
        text, messages = f"{messages[0].content}{gap}{text}", messages[1:]
    return [Message("system", text), *messages]


def after_reply(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages since the assistant spoke last. Raises TextError if it has not."""
    for at in reversed(range(len(messages))):
        if messages[at].role == "assistant":
            return messages[at + 1 :]
    raise TextError("the assistant has not spoken yet, so there is nothing to go on from")


class ChatRenderer(Protocol):
    """Renders for sampling: ids = open(...) + sampled + extend(...) + sampled + extend(...) ...
    A template that rewrites what was said breaks this chain; `resume` says where.

    A turn that was cut before one of `stop_ids` is closed with `truncate_suffix` before `extend`.
    Only what was sampled is trained; the ids from this class never are, `reply`'s excepted.
    """

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The ids that end a sampled turn. The one that was sampled belongs to the turn."""

    @property
    def truncate_suffix(self) -> tuple[int, ...]:
        """What closes a turn that was cut off."""

    def open(self, messages: Sequence[Message], tools: Tools = ()) -> list[int]:
        """The whole prompt, up to and including the opening of the assistant's turn. `tools` are
        the schemas of what it may call."""

    def extend(self, messages: Sequence[Message]) -> list[int]:
        """What follows a finished assistant turn: the rest of its frame after the stop id, the new
        messages in one piece, and the opening of the next assistant turn."""

    def resume(
        self, row: Sequence[int], messages: Sequence[Message], tools: Tools = ()
    ) -> tuple[int, list[int]]:
        """`(kept, tail)`: the next prompt is `row[:kept] + tail`.

        `row` holds the episode's ids so far and ends with a finished reply, `messages` all that was
        said and, after that reply, what is to be added. `kept == len(row)`: the conversation only
        grew, and `tail` is what `extend` gives. Less: from there on the template has changed what
        the model saw. What it leaves alone keeps the ids that were sampled.
        """

    def reply(self, content: str) -> list[int]:
        """A written assistant turn as if sampled, its stop id last: for supervised rows."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of a sampled turn, without its stop id."""


class TinyChat:
    """The small run's template: one bos, then for each message its role's id, its text and end.

    A frame costs two tokens, and no text stands outside one.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._bos = tokenizer.special("bos")
        self._end = tokenizer.special("end")
        self._roles = {role: tokenizer.special(role) for role in ROLES}

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return (self._end,)

    @property
    def truncate_suffix(self) -> tuple[int, ...]:
        return (self._end,)

    def open(self, messages: Sequence[Message], tools: Tools = ()) -> list[int]:
        """Tools are the end of the system message. Raises TextError as `check_opening` does."""
        check_opening(messages)
        frames = self._frames(with_tools("tiny", messages, tools))
        return [self._bos, *frames, self._roles["assistant"]]

    def extend(self, messages: Sequence[Message]) -> list[int]:
        """Raises TextError as `check_extension` does."""
        check_extension(messages)
        return [*self._frames(messages), self._roles["assistant"]]

    def resume(
        self, row: Sequence[int], messages: Sequence[Message], tools: Tools = ()
    ) -> tuple[int, list[int]]:
        """Nothing is ever rewritten."""
        return len(row), self.extend(after_reply(messages))

    def reply(self, content: str) -> list[int]:
        return [*self._tokenizer.encode(content), self._end]

    def decode(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(tokens)

    def _frames(self, messages: Sequence[Message]) -> list[int]:
        check_plain(messages)
        ids: list[int] = []
        for message in messages:
            ids.append(self._roles[message.role])
            ids.extend(self._tokenizer.encode(message.content))
            ids.append(self._end)
        return ids
