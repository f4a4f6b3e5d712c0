"""The learner's side of `benchmarks.worker`: times the updates of one adapter's trainer."""

import time
from collections.abc import Callable

from benchmarks.learner_workload import PARTS, draw_batch
from benchmarks.sampler_workload import ModelShape
from benchmarks.worker import JaxServer

SQUARES = 1024, 2048  # rows of the matrices whose product is timed
REPEATS = 4


class Server(JaxServer):
    """Answers requests with one trainer at a time."""

    def __init__(self, adapter):
        super().__init__(adapter)
        self._trainer = None

    def make(self, part: str, micro: int) -> dict:
        """A trainer with its weights as they begin, and what its first update, which compiles,
        says."""
        self._trainer = None  # its memory is free before the next one needs its own
        shape = ModelShape()
        batch = draw_batch(PARTS[part], shape.vocab)
        self._trainer = made = self.adapter.make_trainer(shape, batch, micro)
        loss, norm = made.step()
        said = {"loss": loss, "grad_norm": norm} | ({"flops": made.flops} if made.flops else {})
        return said | {
            "num_params": made.num_params, "trained": made.trained, "padding": made.padding,
        }  # fmt: skip

    def train(self, steps: int) -> dict:
        """Seconds and CPU seconds (of all threads) of each of so many updates, and the programs
        that were compiled meanwhile."""
        compiles = self.compiles
        wall, cpu = zip(*(seconds(self._trainer.step) for _ in range(steps)), strict=True)
        return {"wall": wall, "cpu": cpu, "compiles": self.compiles - compiles}

    def peak(self) -> dict:
        rates = [matmul_rates(size) for size in SQUARES]
        return {clock: max(rate[clock] for rate in rates) for clock in ("wall", "cpu")}


def matmul_rates(size: int) -> dict[str, float]:
    """Best operations per second and per CPU second of one square matrix product."""
    import jax

    square = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda a: a @ a)
    times = [seconds(product, square) for _ in range(1 + REPEATS)]  # the first one compiles
    wall, cpu = (min(by) for by in zip(*times, strict=True))
    return {"wall": 2 * size**3 / wall, "cpu": 2 * size**3 / cpu}


def seconds(function: Callable, *arguments) -> tuple[float, float]:
    """Of one call, by the wall and of all threads' CPU."""
    import jax

    wall, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - wall, time.process_time() - cpu
