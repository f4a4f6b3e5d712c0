"""Where a template rewrites history, warm-start rows are what play makes of the same replies."""

import pytest

from spade_jax.rollout import Task, play
from spade_jax.text import ChatML, Message, Qwen3Chat
from spade_jax.warm_start.example import Example, to_rows
from tests.rollout.scripted import ScriptedEngine, in_turn
from tests.rollout.test_rewritten import SETTINGS, SYSTEM, THOUGHT, Game

PLAIN = ["a", "b", "c"]
THOUGHTFUL = [THOUGHT + r"\boxed{50}", r"\boxed{75}", THOUGHT + r"\boxed{87}"]


def played(chat, replies):
    """The rows of an episode in which these replies are sampled."""
    engine = ScriptedEngine(in_turn(chat.reply(text) for text in replies))
    (episode,) = play(engine, chat, Game(), [Task(len(replies), 0, 0, SETTINGS, system=SYSTEM)])
    return episode.trajectories


def written(chat, replies):
    said = [*SYSTEM, Message("user", "Guess.")]
    for text in replies:
        said += [Message("assistant", text), Message("user", "higher")]
    return to_rows(Example(tuple(said[:-1])), chat)


@pytest.mark.parametrize(
    "thinking,replies,count",
    [
        (None, THOUGHTFUL, 3), (True, THOUGHTFUL, 3), (None, PLAIN, 3), (False, PLAIN, 3),
    ],
)  # fmt: skip
def test_a_rewritten_history_begins_a_row_as_in_play(chatml_tokenizer, thinking, replies, count):
    chat = Qwen3Chat(chatml_tokenizer, thinking)
    rows, expected = written(chat, replies), played(chat, replies)
    assert len(rows) == count
    assert [(r.tokens, r.mask) for r in rows] == [(r.tokens, r.mask) for r in expected]
    assert sum(row.num_sampled() for row in rows) == sum(len(chat.reply(t)) for t in replies)
    assert all(row.version == 0 and len(row.logprobs) == len(row.tokens) for row in rows)


def test_a_history_that_only_grows_is_one_row(chatml_tokenizer):
    chat = ChatML(chatml_tokenizer)
    (row,) = written(chat, PLAIN)
    said = [*SYSTEM, Message("user", "Guess.")]
    tokens = chat.open(said) + chat.reply("a")
    for reply in "bc":
        tokens += chat.extend([Message("user", "higher")]) + chat.reply(reply)
    assert row.tokens == tokens
