"""What containment costs on this machine. `benchmarks/sandbox.py` sets it beside no containment."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from sandbox_runner.child_process import cpu_clock
from sandbox_runner.pool import BlockingPool, Pool
from sandbox_runner.types import EnvError, Limits, Session

CHILDREN, STEPS, ROUNDS = 64, 100, 5
_STARTS = 100
_MANY = 1024
HUNG, _SECONDS = 128, 10.0
_IDLE = 2  # processes of a pool without children: keeper and zygote
TOY = """
class ToyEnv:
    def __init__(self, max_turns=1000000, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        self.goal = random.Random(seed).randint(1, 9)
        return "guess a number from 1 to 9", {}
    def step(self, action):
        return ("right" if str(self.goal) in action else "wrong"), 0.0, False, False, {}
"""
HANGS = """
class HangEnv:
    def reset(self, seed=None):
        return "ready"
    def step(self, action):
        while True: pass
"""
_TURNS = 1_000_000
Row = dict[str, float | str]


def figures() -> Iterator[Row]:
    """One row per figure, as soon as it is known."""
    with BlockingPool() as pool:
        pool.layers()
        yield start(pool)
        rounds = [steps(pool) for _ in range(ROUNDS)]
        yield {
            "what": f"{CHILDREN} children, steps per second",
            "value": statistics.median(rate for rate, _ in rounds),
            "parent_cpu_us_per_step": statistics.median(cpu for _, cpu in rounds),
        }
    yield asyncio.run(hung())
    yield many()


def start(pool: BlockingPool) -> Row:
    """From `open` to the first observation, one child at a time: CPU of all processes together,
    and wall time."""
    everybody, wall = [], []
    for seed in range(_STARTS):
        before = sum(map(_cpu, _processes(pool))) + time.process_time()
        began = time.perf_counter()
        sessions = pool.open([TOY])
        pool.reset([(sessions[0], seed)])
        wall.append(time.perf_counter() - began)
        everybody.append(time.process_time() + sum(map(_cpu, _processes(pool))) - before)
        pool.close(sessions)
        while len(_processes(pool)) > _IDLE:
            time.sleep(0.001)
    return {
        "what": "start to first observation, ms of CPU",
        "value": 1e3 * statistics.median(everybody),
        "wall_ms": 1e3 * statistics.median(wall),
    }


def steps(pool: BlockingPool) -> tuple[float, float]:
    """`CHILDREN` children, all of them busy: steps per second, and microseconds of this process's
    CPU per step."""
    sessions = _opened(pool, CHILDREN)
    began, cpu_began = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        pool.step([(session, r"\boxed{3}") for session in sessions])
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    pool.close(sessions)
    return CHILDREN * STEPS / seconds, 1e6 * cpu / (CHILDREN * STEPS)


async def hung() -> Row:
    """Steps per second of `CHILDREN` healthy programs while `HUNG` others hang, and their share of
    what it was without these. Deadlines are so long that all hang until the end."""
    async with Pool(Limits(call_cpu=1000.0, max_in_flight=CHILDREN + HUNG)) as pool:
        healthy = await pool.open([TOY] * CHILDREN, max_turns=_TURNS)
        await pool.reset([(session, seed) for seed, session in enumerate(healthy)])
        alone = await _rate(pool, healthy)
        hanging = await pool.open([HANGS] * HUNG)
        await pool.reset([(session, 1) for session in hanging])
        hang = asyncio.ensure_future(pool.step([(session, "x") for session in hanging]))
        beside = await _rate(pool, healthy)
        still_hanging = sum(not pool.lost(session) for session in hanging)
        await pool.close(hanging)
        await asyncio.gather(hang, return_exceptions=True)
    return {
        "what": f"{CHILDREN} healthy beside {still_hanging} hung, steps per second",
        "value": beside,
        "without_them": alone,
        "share": beside / alone,
    }


async def _rate(pool: Pool, sessions: list[Session]) -> float:
    """Steps per second over a few seconds, in which the hung programs' first moments fall too."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < _SECONDS:
        await pool.step([(session, r"\boxed{3}") for session in sessions])
        count += len(sessions)
    return count / (time.perf_counter() - began)


def many() -> Row:
    """MiB of `_MANY` live children with their zygote, every one of which has answered a step."""
    _raise_open_files()
    with BlockingPool(Limits(max_children=_MANY)) as pool:
        sessions = _opened(pool, _MANY)
        answers = pool.step([(session, r"\boxed{3}") for session in sessions])
        wrong = sum(isinstance(answer, EnvError) for answer in answers)
        bytes_used = sum(map(_proportional_bytes, _processes(pool)))
    return {"what": f"{_MANY} live children, MiB", "value": bytes_used / 2**20, "failed": wrong}


def _opened(pool: BlockingPool, count: int) -> list[Session]:
    sessions = pool.open([TOY] * count, max_turns=_TURNS)
    pool.reset([(session, seed) for seed, session in enumerate(sessions)])
    return sessions


def _processes(pool: BlockingPool) -> list[int]:
    """The pool's keepers, zygotes and children."""

    def with_children(pid: int) -> Iterator[int]:
        yield pid
        with contextlib.suppress(FileNotFoundError):  # it has just ended
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                yield from with_children(int(child))

    return [pid for keeper in pool.keeper_pids() for pid in with_children(keeper)]


def _cpu(pid: int) -> float:
    """CPU seconds of a process."""
    return time.clock_gettime(cpu_clock(pid))


def _proportional_bytes(pid: int) -> int:
    """The process's memory, of what it shares with others only its part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def _raise_open_files() -> None:
    """A child takes two descriptors, three until it is there; the usual soft limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * _MANY
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
