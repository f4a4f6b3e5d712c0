"""python -m benchmarks.sandbox: what containment costs, beside none, as JSON lines.

Both sides play the same toy environment in this process's pool or in threads of this process, one
after the other, `ROUNDS` times each in turn; a line gives the medians and their ratio. The baseline
is what public code does: exec the source and step it in a thread. It contains nothing.
"""

import concurrent.futures
import json
import statistics
import time

from sandbox_runner import BlockingPool, Limits

ROUNDS = 5
CHILDREN = 64
STEPS = 100
STARTS = 50

TOY = """
import random
class ToyEnv:
    def __init__(self, max_turns=1000, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        self.goal = random.Random(seed).randint(1, 9)
        return f"guess a number from 1 to 9", {}
    def step(self, action):
        return ("right" if str(self.goal) in action else "wrong"), 0.0, False, False, {}
"""


def pooled_steps(pool: BlockingPool) -> tuple[float, float]:
    """`CHILDREN` children, all of them busy: steps per second, and microseconds of this process's
    CPU per step."""
    sessions = pool.open([TOY] * CHILDREN, max_turns=STEPS + 1)
    pool.reset([(session, seed) for seed, session in enumerate(sessions)])
    began, cpu_began = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        pool.step([(session, r"\boxed{3}") for session in sessions])
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    pool.close(sessions)
    steps = CHILDREN * STEPS
    return steps / seconds, 1e6 * cpu / steps


def threaded_steps() -> float:
    """The same in as many threads of this process."""
    environments = []
    for seed in range(CHILDREN):
        names: dict = {}
        exec(TOY, names)
        environments.append(names["ToyEnv"]())
        environments[-1].reset(seed)
    with concurrent.futures.ThreadPoolExecutor(CHILDREN) as threads:
        began = time.perf_counter()
        for _ in range(STEPS):
            list(threads.map(lambda environment: environment.step(r"\boxed{3}"), environments))
        return CHILDREN * STEPS / (time.perf_counter() - began)


def start_ms(pool: BlockingPool) -> float:
    """Milliseconds of wall time from `open` to the first observation, one child at a time."""
    times = []
    for seed in range(STARTS):
        began = time.perf_counter()
        sessions = pool.open([TOY])
        pool.reset([(sessions[0], seed)])
        times.append(1000 * (time.perf_counter() - began))
        pool.close(sessions)
    return statistics.median(times)


def main() -> None:
    with BlockingPool(Limits()) as pool:
        pool.layers()
        pooled, cpu, threaded = [], [], []
        for _ in range(ROUNDS):
            rate, cpu_us = pooled_steps(pool)
            pooled.append(rate)
            cpu.append(cpu_us)
            threaded.append(threaded_steps())
        rows = [
            {
                "what": f"steps per second, {CHILDREN} environments",
                "pool": statistics.median(pooled),
                "threads": statistics.median(threaded),
                "ratio": statistics.median(pooled) / statistics.median(threaded),
            },
            {"what": "start to first observation, ms", "pool": start_ms(pool)},
            {"what": "parent CPU per step, us", "pool": statistics.median(cpu)},
        ]
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
