"""python -m benchmarks.sandbox: what containment costs, beside none, as JSON lines.

The other side is what public code does: exec the source and step it in a pool of threads of the
same process. It contains nothing. Both sides play the same toy environment in this process,
`ROUNDS` times in turn; a line has the medians and their ratio. Only threads that hang are measured
in a process of their own, since nothing else ends them. `python -m sandbox_runner bench` has the
first side alone.
"""

import asyncio
import concurrent.futures
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from sandbox_runner import BlockingPool, bench

SECONDS = 3.0
HANG_IN_THREADS = "from benchmarks.sandbox import healthy_beside_hung_threads as f; print(f())"


def main() -> None:
    for row in rows():
        print(json.dumps(row), flush=True)


def rows() -> Iterator[dict]:
    with BlockingPool() as pool:
        pool.layers()
        yield bench.start(pool)
        pooled, threaded = [], []
        for _ in range(bench.ROUNDS):
            pooled.append(bench.steps(pool))
            threaded.append(threaded_steps())
    rate, cpu = (statistics.median(column) for column in zip(*pooled, strict=True))
    plain = statistics.median(threaded)
    yield {
        "what": f"{bench.CHILDREN} environments, steps per second",
        "value": rate, "threads": plain, "ratio": rate / plain, "parent_cpu_us_per_step": cpu,
    }  # fmt: skip
    hung = asyncio.run(bench.hung())
    command = [sys.executable, "-c", HANG_IN_THREADS]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    yield hung | {"threads": float(said), "threads_share": float(said) / plain}
    yield bench.many()


def threaded_steps() -> float:
    """Steps per second of as many environments in as many threads."""
    environments = [_toy(seed) for seed in range(bench.CHILDREN)]
    with concurrent.futures.ThreadPoolExecutor(bench.CHILDREN) as threads:
        began = time.perf_counter()
        for _ in range(bench.STEPS):
            list(threads.map(lambda environment: environment.step(r"\boxed{3}"), environments))
        return bench.CHILDREN * bench.STEPS / (time.perf_counter() - began)


def healthy_beside_hung_threads() -> float:
    """Steps per second of healthy environments behind hung ones; ends the process."""
    threads = concurrent.futures.ThreadPoolExecutor(bench.CHILDREN)
    hanging: dict = {}
    exec(bench.HANGS, hanging)
    for _ in range(bench.HUNG):
        threads.submit(hanging["HangEnv"]().step, "x")
    environments = [_toy(seed) for seed in range(bench.CHILDREN)]
    steps = [threads.submit(environment.step, r"\boxed{3}") for environment in environments]
    done, _ = concurrent.futures.wait(steps, timeout=SECONDS)
    print(len(done) / SECONDS, flush=True)
    os._exit(0)


def _toy(seed: int):
    names: dict = {"random": random}
    exec(bench.TOY, names)
    environment = names["ToyEnv"]()
    environment.reset(seed)
    return environment


if __name__ == "__main__":
    main()
