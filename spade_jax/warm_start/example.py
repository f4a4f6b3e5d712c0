"""One warm-start example: a conversation whose assistant turns are to be learnt."""

import dataclasses
from collections.abc import Iterable, Iterator

from spade_jax.rollout import Trajectory
from spade_jax.text import ChatRenderer, Message


class WarmStartError(RuntimeError):
    """The warm start's data could not be made or does not fit the model."""


@dataclasses.dataclass(frozen=True)
class Example:
    """Attributes:
    role: "designer" or "agent": whose rows hold it; None for the shorter ones that do.
    """

    messages: tuple[Message, ...]
    role: str | None = None


def lines(examples: Iterable[Example]) -> Iterator[str]:
    """Single lines for a tokenizer's training, each with its newline where the text has one."""
    for example in examples:
        for message in example.messages:
            yield from message.content.splitlines(keepends=True)


def to_trajectory(example: Example, chat: ChatRenderer) -> Trajectory:
    """The row that sampling the assistant's words would have made; log-probs are zero."""
    row = Trajectory(version=0)
    waiting: list[Message] = []
    for message in example.messages:
        if message.role != "assistant":
            waiting.append(message)
            continue
        row.append_context(chat.extend(waiting) if row.tokens else chat.open(waiting))
        reply = chat.reply(message.content)
        row.append_sampled(reply, [0.0] * len(reply), 0)
        waiting = []
    return row
