"""What containment costs on this machine. `benchmarks/sandbox.py` sets it beside no containment."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from sandbox_runner.pool import BlockingPool
from sandbox_runner.types import EnvError, Limits, Session

CHILDREN, STEPS, ROUNDS = 64, 100, 5
_STARTS = 100
_MANY = 1024
_HUNG, _HEALTHY_STEPS = 128, 100
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
        yield hung(pool)
    yield many()


def start(pool: BlockingPool) -> Row:
    """From `open` to the first observation, one child at a time: CPU of all processes together,
    and wall time."""
    cpu, wall = [], []
    for seed in range(_STARTS):
        cpu_before, began = _cpu_of_all(pool), time.perf_counter()
        sessions = pool.open([TOY])
        pool.reset([(sessions[0], seed)])
        cpu.append(_cpu_of_all(pool) - cpu_before)
        wall.append(time.perf_counter() - began)
        pool.close(sessions)
    return {
        "what": "start to first observation, ms of CPU",
        "value": 1e3 * statistics.median(cpu),
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


def hung(pool: BlockingPool) -> Row:
    """Steps per second of `CHILDREN` healthy programs while `_HUNG` others hang, and their share of
    what it was without these. The hung ones are asked in the same batch as the first healthy
    steps, and their deadlines run meanwhile."""
    alone = _healthy_rate(pool, [])
    beside = _healthy_rate(pool, [HANGS] * _HUNG)
    return {
        "what": f"{CHILDREN} healthy beside {_HUNG} hung, steps per second",
        "value": beside,
        "without_them": alone,
        "share": beside / alone,
    }


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
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from with_children(int(child))

    return [pid for keeper in pool.zygote_pids() for pid in with_children(keeper)]


def _cpu_of_all(pool: BlockingPool) -> float:
    """CPU seconds of this process, the pool's processes and those that it has buried."""
    ticks = 0
    for pid in _processes(pool):
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, stat[11:15]))
    return time.process_time() + ticks / 100


def _proportional_bytes(pid: int) -> int:
    """The process's memory, of what it shares with others only its part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def _raise_open_files() -> None:
    """A child takes two descriptors; the usual soft limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * _MANY
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
