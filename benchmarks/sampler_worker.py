"""The sampler's side of `benchmarks.worker`: plays rounds with the engines of one adapter."""

import dataclasses
import time
from collections.abc import Callable

from benchmarks.sampler_workload import ModelShape, Part, play
from benchmarks.worker import JaxServer


class Server(JaxServer):
    """Answers requests with engines of one adapter, of which the latest is kept."""

    def __init__(self, adapter):
        super().__init__(adapter)
        self._shape, self._key, self._latest = ModelShape(), None, None

    def peaks(self, rows: list[int]) -> dict:
        from benchmarks import sampler_roofline

        return dataclasses.asdict(sampler_roofline.measure(self._shape, rows))

    def play(self, part: dict, seed: int) -> dict:
        """One round. `wall` and `cpu` (of all threads) are seconds inside `generate` alone."""
        part = Part(**part)
        engine = self._engine(part)
        clock = Clock(engine.generate)
        steps, compiles = engine.slot_steps, self.compiles
        calls = play(part, self._shape.vocab, seed, clock)
        return {
            "calls": [[dataclasses.astuple(reply) for reply in call] for call in calls],
            "wall": clock.wall,
            "cpu": clock.cpu,
            "slot_steps": engine.slot_steps - steps,
            "compiles": self.compiles - compiles,
            "num_params": engine.num_params,
        }

    def _engine(self, part: Part):
        # Stop ids belong to the key because one of the two compiles them in.
        key = part.max_len, part.slots, part.num_stop
        if key != self._key:
            self._latest = None  # its memory is free before the next one needs its own
            self._key = key
            self._latest = self.adapter.make_engine(self._shape, part.max_len, part.slots)
        return self._latest


class Clock:
    """A function that remembers how long its calls took."""

    def __init__(self, function: Callable):
        self._function, self.wall, self.cpu = function, 0.0, 0.0

    def __call__(self, *arguments):
        wall, cpu = time.perf_counter(), time.process_time()
        result = self._function(*arguments)
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu
        return result
