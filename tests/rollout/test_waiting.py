"""The seconds in which the sampler waits for environments, on a clock that only the test moves."""

import threading
from concurrent import futures

import jax
import pytest

from spade_jax import models, parallel
from spade_jax.rollout import Feedback, ImmediateWorld, PlaySettings, Task, play
from spade_jax.sampler import Engine, EngineSettings, Request
from tests.rollout.letters import CONFIG, BriefChat

SETTINGS = EngineSettings(
    4, 60, prefill_tokens=8, prefill_chunks=(4,), decode_rows=4, decode_chunk=4, streams=1
)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def engine(clock):
    """Every job takes a second."""
    engine = Engine(CONFIG, parallel.make_mesh({}, jax.devices()[:1]), SETTINGS)
    engine._clock, engine._rests_since = clock, clock()
    engine.load(parallel.unbox(models.init(CONFIG, jax.random.key(0))), 0)
    for name in ("prefill", "decode"):
        slow_down(engine, name, clock)
    return engine


def slow_down(engine, name, clock):
    program = getattr(engine._programs, name)

    def slow(*arguments):
        clock.now += 1.0
        return program(*arguments)

    setattr(engine._programs, name, slow)


class Slow(ImmediateWorld):
    """An answer comes when everybody waits, `delay` seconds later."""

    def __init__(self, clock, delay):
        super().__init__()
        self.clock, self.delay, self.waits = clock, delay, 0

    def first(self, task):
        return Feedback("hello")

    def answer(self, task, reply):
        return Feedback("more")

    def poll(self, timeout):
        if timeout is not None:
            return []
        self.clock.now += self.delay
        self.waits += 1
        return super().poll(timeout)


class Instant(Slow):
    def poll(self, timeout):
        return ImmediateWorld.poll(self, timeout)


def played(engine, world):
    tasks = [Task(None, 0, seed, PlaySettings(1.0, 4, 40)) for seed in range(4)]
    episodes = play(engine, BriefChat(), world, tasks)
    assert sum(len(episode.replies) for episode in episodes) > 8
    return engine.stats.waited_seconds


def test_nobody_waits_for_environments_that_answer_at_once(engine, clock):
    assert played(engine, Instant(clock, 0.0)) == 0.0
    assert clock.now == engine.stats.dispatches > 0


@pytest.mark.parametrize("delay", [0.5, 500.0])
def test_the_sampler_waits_as_long_as_everybody_waits_for_environments(engine, clock, delay):
    world = Slow(clock, delay)
    waited = played(engine, world)
    assert waited == world.waits * delay
    assert clock.now == waited + engine.stats.dispatches
    assert (waited / clock.now > 0.9) == (delay > 100)


def test_a_wait_counts_from_the_end_of_the_last_job_on(engine, clock):
    held, decode = threading.Event(), engine._programs.decode

    def hold(*arguments):
        assert held.wait(60)
        return decode(*arguments)

    engine._programs.decode = hold
    handle = engine.submit(Request([5], 4, 0, 1.0, ()))
    engine.advance(0.0)
    with engine.waiting():
        clock.now += 100.0
    assert engine.stats.waited_seconds == 0.0
    with engine.waiting():
        clock.now += 10.0
        held.set()
        futures.wait(engine._jobs, timeout=60)
        clock.now += 3.0
    assert engine.stats.waited_seconds == 3.0
    handle.close()
