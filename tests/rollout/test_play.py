"""The one episode loop, with a real engine and worlds whose answers are scripted."""

import random

import jax
import pytest

from sandbox_runner import EnvError
from spade_jax import models, parallel
from spade_jax.rollout import Feedback, ImmediateWorld, PlaySettings, Task, play
from spade_jax.sampler import Engine, EngineSettings
from spade_jax.text import Message
from tests.rollout.letters import CONFIG, END, BriefChat, LetterChat

CONTEXT = 60


class Scripted(ImmediateWorld):
    """Each task's place is the list of answers it gets; the first is its first observation."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.turn = {}

    def first(self, task):
        self.turn[task] = 0
        return task.place[0]

    def answer(self, task, reply):
        self.seen.append(reply)
        self.turn[task] += 1
        return task.place[self.turn[task]]


class Late(Scripted):
    """`due(task)` says at each look whether its answer has come; one comes when all wait."""

    def __init__(self, due):
        super().__init__()
        self.due = due
        self.came = []

    def poll(self, timeout):
        waiting = super().poll(timeout)
        come = [pair for pair in waiting if self.due(pair[0])]
        if timeout is None:
            come = come or waiting[:1]
        self._answers = [pair for pair in waiting if pair not in come]
        self.came += [task for task, _ in come]
        return come


@pytest.fixture(scope="module")
def engine():
    settings = EngineSettings(
        3, CONTEXT, prefill_tokens=8, prefill_chunks=(4,), decode_rows=2, decode_chunk=4
    )
    engine = Engine(CONFIG, parallel.make_mesh({}, jax.devices()[:1]), settings)
    engine.load(parallel.unbox(models.init(CONFIG, jax.random.key(0))), 5)
    return engine


def task(*answers, sample_seed=0, max_turns=4, max_new_tokens=400, system=(), **more):
    settings = PlaySettings(1.0, max_turns, max_new_tokens, **more)
    return Task(list(answers), 0, sample_seed, settings, system)


def win(reward=1.0):
    return Feedback("won", reward, terminated=True)


def replies_that_stop(engine, answers, count=1, **more):
    """Episodes of `answers` whose sampled replies happened to end with the stop id."""
    tasks = [task(*answers, sample_seed=seed, **more) for seed in range(40)]
    episodes = play(engine, LetterChat(), Scripted(), tasks)
    whole = [episode for episode in episodes if episode.outcome not in ("cut", "context")]
    assert len(whole) >= count
    return whole


def test_the_mask_marks_exactly_the_sampled_tokens(engine):
    obs = Feedback("hello")
    for episode in replies_that_stop(engine, [obs, Feedback("next"), win()]):
        (row,), chat = episode.trajectories, LetterChat()
        expected = [*chat.open(episode.transcript[:1])]
        assert row.tokens[: len(expected)] == expected
        assert row.mask[: len(expected)] == [0] * len(expected)
        sampled = [t for t, m in zip(row.tokens, row.mask, strict=True) if m]
        assert sampled.count(END) == len(episode.replies) == 2
        texts = " ".join(episode.replies).split()
        assert [str(t) for t in sampled if t != END] == texts
        assert row.version == 5
        assert all(p < 0 for p, m in zip(row.logprobs, row.mask, strict=True) if m)


def test_the_return_is_the_last_reward_if_terminated_clipped_to_one(engine):
    first = Feedback("hello", reward=0.7)
    (episode, *_) = replies_that_stop(engine, [first, win(7.5)])
    assert episode.outcome == "terminated" and episode.final_return == 1.0
    (episode, *_) = replies_that_stop(engine, [first, Feedback("x", 0.9, truncated=True)])
    assert episode.outcome == "truncated" and episode.final_return == 0.0


def test_the_turn_budget_truncates(engine):
    answers = [Feedback("hello")] + [Feedback("more", 0.5)] * 5
    for episode in replies_that_stop(engine, answers, max_turns=2):
        assert episode.outcome == "truncated" and len(episode.replies) == 2
        assert episode.final_return == 0.0


def test_a_reply_cut_at_its_token_limit_ends_the_episode_unseen_by_the_world(engine):
    world = Scripted()
    answers = Feedback("hello"), win()
    tasks = [task(*answers, sample_seed=seed, max_new_tokens=1) for seed in range(20)]
    episodes = play(engine, LetterChat(), world, tasks)
    cut = [episode for episode in episodes if episode.outcome == "cut"]
    assert cut and len(world.seen) == len(episodes) - len(cut)
    assert all(episode.num_sampled() == 1 for episode in cut)


def test_an_environment_s_fault_voids_its_own_episode_only(engine):
    error = EnvError("limits", "too slow")
    broken = task(Feedback("hello"), Feedback(error=error), sample_seed=1)
    never = task(Feedback(error=error), sample_seed=2)
    fine = [task(Feedback("hello"), win(), sample_seed=seed) for seed in range(3, 9)]
    episodes = play(engine, LetterChat(), Scripted(), [broken, never, *fine])
    assert episodes[1].outcome == "void" and episodes[1].error is error
    assert episodes[1].trajectories == []
    assert episodes[0].outcome in ("void", "cut", "context")
    alone = play(engine, LetterChat(), Scripted(), fine)
    for beside, single in zip(episodes[2:], alone, strict=True):
        assert beside.trajectories == single.trajectories
        assert beside.outcome == single.outcome


def test_a_full_context_ends_the_episode_without_an_error(engine):
    answers = [Feedback("hello")] + [Feedback("more")] * 60
    tasks = [task(*answers, sample_seed=seed, max_turns=60) for seed in range(6)]
    for episode in play(engine, LetterChat(), Scripted(), tasks):
        assert episode.outcome in ("context", "cut")
        assert all(len(row.tokens) <= CONTEXT for row in episode.trajectories)
        assert episode.final_return == 0.0


def test_system_messages_come_before_the_first_observation(engine):
    system = (Message("system", "be brief"),)
    (episode, *_) = replies_that_stop(engine, [Feedback("hello"), win()], system=system)
    assert [message.role for message in episode.transcript] == [
        "system", "user", "assistant", "user"
    ]  # fmt: skip


def guesses(count):
    """Tasks of two or three turns, more than there are slots."""
    answers = [Feedback("hello"), Feedback("next"), Feedback("and", 0.5)]
    return [
        task(*answers[: 2 + seed % 2], win(), sample_seed=seed, max_turns=2 + seed % 3)
        for seed in range(count)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_episodes_do_not_depend_on_how_long_environments_take(engine, seed):
    rng = random.Random(seed)
    late = Late(lambda task: rng.random() < 0.3)
    delayed = play(engine, BriefChat(), late, guesses(30))
    prompt = play(engine, BriefChat(), Scripted(), guesses(30))
    assert len({len(episode.replies) for episode in prompt}) > 2
    for one, other in zip(delayed, prompt, strict=True):
        assert one.trajectories == other.trajectories
        assert one.transcript == other.transcript
        assert (one.outcome, one.reward) == (other.outcome, other.reward)


def test_nobody_waits_for_a_slow_environment(engine):
    slow, *others = [task(Feedback("hello"), win(), sample_seed=seed) for seed in range(9)]
    world = Late(lambda task: task is not slow)
    episodes = play(engine, BriefChat(), world, [slow, *others])
    assert episodes[0].outcome == "terminated"
    assert sum(episode.outcome == "terminated" for episode in episodes) > 4
    assert world.came[-2:] == [slow] * 2


def test_a_task_is_played_once(engine):
    twice = task(Feedback("hello"), win())
    with pytest.raises(ValueError, match="played once"):
        play(engine, LetterChat(), Scripted(), [twice, twice])


class Crash(Exception):
    pass


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_crash_in_the_world_leaves_an_engine_that_can_go_on(engine, after):
    def due(task):
        if len(world.seen) >= after:
            raise Crash
        return True

    world = Late(due)
    with pytest.raises(Crash):
        play(engine, BriefChat(), world, guesses(8))
    assert not engine.running
    engine.load(engine._loaded, 5)  # which refuses while an episode is open
    assert all(episode.outcome for episode in play(engine, BriefChat(), Scripted(), guesses(8)))


class Silent(Scripted):
    """It never answers a reply."""

    def poll(self, timeout):
        return [] if self.seen else super().poll(timeout)


def test_a_standstill_is_an_error(engine):
    with pytest.raises(RuntimeError, match="can go on: . episodes wait for answers"):
        play(engine, BriefChat(), Silent(), guesses(8))
    assert not engine.running
