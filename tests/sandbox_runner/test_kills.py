"""SIGKILL at a random moment under load: of the owner, the keeper, the zygote, a child."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sandbox_runner import BatchError, BlockingPool, EnvError, RunnerError, StepResult
from tests.sandbox_runner.processes import alive, below

ROOT = str(Path(__file__).resolve().parents[2])
SESSIONS, MOST_ROUNDS = 16, 20_000
ECHO = """
class EchoEnv:
    def reset(self, seed=None):
        self.turn = 0
        return "ready"
    def step(self, action):
        self.turn += 1
        return f"{self.turn} {action}", 0.0, False, False, {}
"""
OWNER = f"""
import sys
sys.path.insert(0, sys.argv[1])
from sandbox_runner import BlockingPool
pool = BlockingPool()
sessions = pool.open([{ECHO!r}] * {SESSIONS}, max_turns=10**9)
pool.reset([(session, 1) for session in sessions])
print("ready", flush=True)
while True:
    pool.step([(session, "go") for session in sessions])
"""


def kill_later(pid: int, seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    timer.start()
    return timer


def gone(pids, seconds=2.0) -> bool:
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(alive, pids))


def trial_owner(seed: int) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, ROOT], stdout=subprocess.PIPE)
    try:
        assert owner.stdout.readline() == b"ready\n"
        pids = below(owner.pid)
        assert len(pids) == SESSIONS + 2
        time.sleep(random.Random(seed).uniform(0, 0.3))
        owner.kill()
        owner.wait(5)
        assert gone(pids)
    finally:
        owner.kill()
        owner.wait(5)
        owner.stdout.close()


def play_until_hit(pool, sessions) -> list:
    """Steps all sessions until the first does not answer; the answers of that round. Every answer
    before must be the one to what was just asked."""
    for turn in range(1, MOST_ROUNDS):
        asked = [f"{turn}.{n}" for n in range(len(sessions))]
        try:
            results = pool.step(list(zip(sessions, asked, strict=True)))
        except BatchError as error:
            results = error.results
        for text, result in zip(asked, results, strict=True):
            if isinstance(result, StepResult):
                assert result.observation == f"{turn} {text}"
        if not all(isinstance(result, StepResult) for result in results):
            return results
    raise AssertionError("nobody was hit")


def trial_inside(pool: BlockingPool, victim: str, seed: int) -> None:
    sessions = pool.open([ECHO] * SESSIONS, max_turns=10**9)
    pool.reset([(session, 1) for session in sessions])
    (keeper,) = pool.keeper_pids()
    zygote, *children = below(keeper)
    rng = random.Random(seed)
    target = {"keeper": keeper, "zygote": zygote, "child": rng.choice(children)}[victim]
    timer = kill_later(target, rng.uniform(0, 0.1))
    results = play_until_hit(pool, sessions)
    timer.join()
    lost = [result for result in results if not isinstance(result, StepResult)]
    if victim == "child":
        assert len(lost) == 1 and isinstance(lost[0], EnvError)
        assert gone([target])
    else:
        assert all(isinstance(result, RunnerError) for result in lost)
        assert gone([keeper, zygote, *children])
    pool.close(sessions)
    again = reopened(pool)
    assert pool.step([(again, "hello")])[0].observation == "1 hello"
    pool.close([again])


def reopened(pool: BlockingPool):
    """A session, though the pool may find out only now that its zygote is dead."""
    for _ in range(3):
        try:
            (session,) = pool.open([ECHO])
            pool.reset([(session, 1)])
            return session
        except RunnerError:
            continue
    raise AssertionError("the pool is not usable again")


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_owner_leaves_nobody(seed):
    trial_owner(seed)


@pytest.mark.parametrize("victim", ["keeper", "zygote", "child"])
def test_what_is_killed_is_reported_and_replaced(victim):
    with BlockingPool() as pool:
        for seed in range(2):
            trial_inside(pool, victim, seed)


@pytest.mark.soak
@pytest.mark.parametrize("victim", ["owner", "keeper", "zygote", "child"])
def test_two_hundred_kills(victim):
    """Fifty of each."""
    with BlockingPool() as pool:
        for seed in range(50):
            trial_owner(seed) if victim == "owner" else trial_inside(pool, victim, seed)
