"""Chat templates that rewrite history: each sampled token is trained once, where it was sampled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax import models, parallel
from spade_jax.rollout import Feedback, ImmediateWorld, PlaySettings, Task, play
from spade_jax.sampler import Engine, EngineSettings
from spade_jax.text import ChatML, Message, Qwen3Chat
from tests.rollout.scripted import ScriptedEngine, in_turn, sampled, spelled

THOUGHT = "<think>\nMiddle first.\n</think>\n\n"
SETTINGS = PlaySettings(0.5, 9, 99)
SYSTEM = (Message("system", "Play."),)


class Game(ImmediateWorld):
    """The task's place is how many replies it takes."""

    def first(self, task):
        self.turn = 0
        return Feedback("Guess.")

    def answer(self, task, reply):
        self.turn += 1
        return Feedback("higher", terminated=self.turn == task.place)


def played(chat, tokenizer, replies):
    """The episode of some replies and what was said in which context."""
    engine = ScriptedEngine(spelled(replies, tokenizer, chat))
    task = Task(len(replies), 0, 0, SETTINGS, system=SYSTEM)
    (episode,) = play(engine, chat, Game(), [task])
    assert episode.outcome == "terminated" and engine.open == 0
    return episode, engine.said


@pytest.mark.parametrize("thinking", [None, True])
def test_thinking_is_trained_where_it_was_thought_and_gone_afterwards(chatml_tokenizer, thinking):
    chat = Qwen3Chat(chatml_tokenizer, thinking)
    replies = [THOUGHT + r"\boxed{50}", r"\boxed{75}", THOUGHT + r"\boxed{87}"]
    episode, said = played(chat, chatml_tokenizer, replies)
    assert episode.replies == replies
    first, second = episode.trajectories
    assert sampled([first, second]) == said
    assert "Middle" in chatml_tokenizer.decode(first.tokens)
    text = chatml_tokenizer.decode(second.tokens)
    assert text.count("Middle") == 1 and text.endswith(replies[2])
    asked = [*episode.transcript[:5], Message("user", "higher")]
    assert list(said[2][0]) == chat.open(asked)
    kept = len(chat.open(episode.transcript[:2]))
    assert second.tokens[:kept] == first.tokens[:kept]
    assert second.temperature == 0.5 and second.version == 3


def test_each_turn_is_a_row_where_each_is_rewritten(chatml_tokenizer):
    chat = Qwen3Chat(chatml_tokenizer, thinking=False)
    episode, said = played(chat, chatml_tokenizer, ["a", "b", "c"])
    assert len(episode.trajectories) == 3
    assert sampled(episode.trajectories) == said
    assert list(said[2][0]) == chat.open(episode.transcript[:6])


@pytest.mark.parametrize("thinking", [None, False])
def test_a_reply_that_a_string_stopped_is_closed_as_context(chatml_tokenizer, thinking):
    chat = Qwen3Chat(chatml_tokenizer, thinking)
    engine = ScriptedEngine(in_turn([chatml_tokenizer.encode("</answer>")] * 2))
    (episode,) = play(engine, chat, Game(), [Task(2, 0, 0, SETTINGS, system=SYSTEM)])
    assert sampled(episode.trajectories) == engine.said
    assert len(episode.trajectories) == (2 if thinking is False else 1)
    assert list(engine.said[1][0]) == chat.open(episode.transcript[:4])


@pytest.mark.parametrize("said", [[], [5, 6]])
def test_a_reply_that_took_too_long_ends_the_episode(chatml_tokenizer, said):
    engine = ScriptedEngine(in_turn([said], "deadline"))
    game = Game()
    (episode,) = play(engine, ChatML(chatml_tokenizer), game, [Task(1, 0, 0, SETTINGS)])
    assert (episode.outcome, episode.unfinished, game.turn) == ("deadline", True, 0)
    assert (episode.final_return, episode.num_sampled()) == (0.0, len(said))
    assert engine.open == 0 and len(episode.trajectories) == bool(said)


@pytest.mark.parametrize("template", [ChatML, Qwen3Chat])
def test_what_is_not_rewritten_is_one_row(chatml_tokenizer, template):
    chat = template(chatml_tokenizer)
    episode, said = played(chat, chatml_tokenizer, ["a", "b", "c"])
    assert len(episode.trajectories) == 1
    assert sampled(episode.trajectories) == said
    assert episode.trajectories[0].tokens == list(said[-1][0] + said[-1][1])


def test_the_model_gives_the_rows_their_logprobs(chatml_tokenizer):
    """With a real engine, which must forget what the template rewrote."""
    vocab = chatml_tokenizer.vocab_size
    config = models.preset("tiny", num_layers=1, vocab_size=vocab, d_model=32, head_dim=8, d_ff=32)
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    settings = EngineSettings(8, 640, prefill_chunks=(16,), decode_rows=8)
    engine = Engine(config, parallel.make_mesh({}, jax.devices()[:1]), settings)
    engine.load(params, 0)
    chat = Qwen3Chat(chatml_tokenizer, thinking=False)
    tasks = [Task(9, 0, seed, PlaySettings(1.0, 3, 400), system=SYSTEM) for seed in range(16)]
    episodes = play(engine, chat, Game(), tasks)
    rows = [row for episode in episodes for row in episode.trajectories]
    assert len(rows) > len(episodes) + 2
    assert sum(len(episode.replies) for episode in episodes) == len(rows)

    @jax.jit
    def logprobs(ids):
        positions = jnp.arange(ids.shape[1])[None]
        hidden = models.hidden_packed(config, params, ids, positions, jnp.ones_like(ids))
        return jax.nn.log_softmax(models.logits(config, params, hidden)[0])

    for row in rows:
        ids = np.zeros((1, 640), np.int32)
        ids[0, : len(row.tokens)] = row.tokens
        at = np.flatnonzero(row.mask)
        want = np.asarray(logprobs(ids))[at - 1, np.asarray(row.tokens)[at]]
        np.testing.assert_allclose(np.asarray(row.logprobs)[at], want, atol=1e-4)
