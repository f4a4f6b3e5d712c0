"""Sandbox sessions as a world: each answers as soon as it can, and faults are feedback."""

import contextlib

import pytest

from sandbox_runner import BlockingPool, EnvError, Limits, RunnerError
from spade_jax.envs import Player, PlayRequest, Program, SandboxWorld, Seat
from spade_jax.parallel import Hosts
from spade_jax.prompts import Prompts
from spade_jax.rollout import Feedback, PlaySettings, Task
from spade_jax.sampler import Request
from tests.rollout.scripted import ScriptedEngine

SETTINGS = PlaySettings(1.0, 9, 9)
ECHO = """
class EchoEnv:
    def reset(self, seed=None):
        return f"seed {seed}"
    def step(self, action):
        while "hang" in action: pass
        return action, 0.5, "end" in action, False, {}
"""


@pytest.fixture(scope="module")
def pool():
    with BlockingPool(Limits(call_cpu=0.5)) as pool:
        yield pool


@pytest.fixture
def seated(pool):
    """`seated(count)`: a world and so many tasks that were reset in it."""
    opened = []

    def make(count, hint=None):
        sessions = pool.open([ECHO] * count)
        opened.extend(sessions)
        tasks = [
            Task(Seat(session, hint), seed, 0, SETTINGS) for seed, session in enumerate(sessions)
        ]
        world = SandboxWorld(pool, Prompts("compact"))
        return world, tasks, reset(world, tasks)

    yield make
    pool.close(opened)


def reset(world, tasks):
    """The first observations, whatever order they come in."""
    for task in tasks:
        world.start_reset(task)
    answers = {}
    while len(answers) < len(tasks):
        come = dict(world.poll(None))
        assert come
        answers |= come
    return [answers[task] for task in tasks]


def test_the_first_observation_has_the_hint(seated):
    _, _, plain = seated(2)
    assert plain == [Feedback("seed 0"), Feedback("seed 1")]
    _, _, hinted = seated(1, hint="go left")
    assert "seed 0" in hinted[0].text and "go left" in hinted[0].text


def test_a_slow_environment_holds_nobody_back_and_meets_its_deadline(seated):
    world, (slow, quick), _ = seated(2)
    world.start_step(slow, r"\boxed{hang}")
    for turn in range(8):
        world.start_step(quick, rf"\boxed{{{turn}}}")
        assert world.poll(None) == [(quick, Feedback(rf"\boxed{{{turn}}}", 0.5))]
    ((task, feedback),) = world.poll(None)
    assert task is slow and feedback.error.stage == "limits"
    assert world.poll(None) == []


def test_without_a_session_the_episode_is_void_at_once(seated):
    world, _, _ = seated(1)
    error = EnvError("load", "no such module")
    (feedback,) = reset(world, [Task(Seat(error), 0, 0, SETTINGS)])
    assert feedback == Feedback(error=error)


def test_a_reply_longer_than_a_frame_is_data(seated):
    world, (task, other), _ = seated(2)
    world.start_step(task, "x" * (17 << 20))
    world.start_step(other, "y")
    answers = {}
    while len(answers) < 2:
        answers |= world.poll(None)
    assert answers[other] == Feedback("y", 0.5)
    assert "100000 bytes" in str(answers[task].error)  # this one echoes what it is told


def test_the_runners_fault_is_raised(seated, pool):
    world, (task,), _ = seated(1)
    world.start_step(task, "hang")
    pool.close([task.place.session])
    with pytest.raises(RunnerError):
        world.poll(None)


class NoChat:
    stop_ids = (1,)

    def open(self, messages, tools=()):
        return [1]

    def decode(self, tokens):
        return ""


class Broken:
    """An engine that fails."""

    waiting = contextlib.nullcontext

    def submit(self, request):
        raise MemoryError

    advance = submit


def test_whatever_fails_no_session_stays_open(pool):
    player = Player(Broken(), NoChat(), pool, Prompts("compact"), Hosts())
    before = dict(pool._sessions._live)
    with pytest.raises(MemoryError):
        player.play([Program(ECHO, True, (PlayRequest(1, 1),) * 3)], PlaySettings(1.0, 4, 9))
    assert pool._sessions._live == before


def test_all_settings_of_a_play_reach_the_engine(pool):
    engine, chat = ScriptedEngine(None, room=0), NoChat()
    settings = PlaySettings(0.7, 4, 9, 20, 0.95, ("</answer>",), 3.0)
    player = Player(engine, chat, pool, Prompts("compact"), Hosts())
    ((episode,),) = player.play([Program(ECHO, True, (PlayRequest(1, 2),))], settings)
    assert episode.outcome == "context" and episode.trajectories == []
    assert engine.requests == [
        Request([1], 9, 2, 0.7, (1,), 20, 0.95, ("</answer>",), chat.decode, 3.0)
    ]
