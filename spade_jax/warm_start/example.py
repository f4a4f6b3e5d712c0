"""One warm-start example: a conversation whose assistant turns are to be learnt."""

import dataclasses
from collections.abc import Iterable, Iterator

from spade_jax.rollout import Trajectory
from spade_jax.text import ChatRenderer, Message, Tools, tools_text


class WarmStartError(RuntimeError):
    """The warm start's data could not be made or does not fit the model."""


@dataclasses.dataclass(frozen=True)
class Example:
    """Attributes:
    role: "designer" or "agent": whose rows hold it; None for the shorter ones that do.
    tools: schemas of what the assistant may call.
    """

    messages: tuple[Message, ...]
    role: str | None = None
    tools: Tools = ()


def lines(examples: Iterable[Example]) -> Iterator[str]:
    """Single lines for a tokenizer's training, each with its newline where the text has one. Tools
    are spelled as a new model's template does."""
    for example in examples:
        yield from tools_text("tiny", example.tools).splitlines(keepends=True)
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
        opened = chat.extend(waiting) if row.tokens else chat.open(waiting, example.tools)
        row.append_context(opened)
        reply = chat.reply(message.content)
        row.append_sampled(reply, [0.0] * len(reply), 0)
        waiting = []
    return row
