"""The learner's side of `benchmarks.worker`: times the updates of one adapter's trainer."""

import time

from benchmarks import sampler_roofline as roofline
from benchmarks.learner_workload import PARTS, draw_batch
from benchmarks.sampler_workload import ModelShape
from benchmarks.worker import JaxServer

SQUARES = 1024, 2048  # rows of the matrices whose product is timed


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
            "num_params": made.num_params, "trained": made.trained, "positions": made.positions,
        }  # fmt: skip

    def train(self, steps: int) -> dict:
        """Seconds of each of so many updates, and the programs that were compiled meanwhile."""
        compiles, seconds = self.compiles, []
        for _ in range(steps):
            began = time.perf_counter()
            self._trainer.step()
            seconds.append(time.perf_counter() - began)
        return {"seconds": seconds, "compiles": self.compiles - compiles}

    def peak(self) -> dict:
        return {"flops": max(roofline.matmul_rate(size, "float32") for size in SQUARES)}
