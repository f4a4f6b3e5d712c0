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


def to_rows(example: Example, chat: ChatRenderer) -> list[Trajectory]:
    """The rows that play makes where the assistant's words are sampled: one, unless the template
    rewrites history. Log-probs are zero."""
    rows: list[Trajectory] = []
    said: list[Message] = []
    for message in example.messages:
        if message.role != "assistant":
            said.append(message)
            continue
        if not rows:
            rows.append(Trajectory())
            rows[-1].append_context(chat.open(said, example.tools))
        else:
            kept, tail = chat.resume(rows[-1].tokens, said, example.tools)
            if kept < len(rows[-1].tokens):
                rows.append(rows[-1].branch(kept))
            rows[-1].append_context(tail)
        reply = chat.reply(message.content)
        rows[-1].append_sampled(reply, [0.0] * len(reply), 0)
        said.append(Message("assistant", chat.decode(reply)))  # with the thought of its frame
    return rows
