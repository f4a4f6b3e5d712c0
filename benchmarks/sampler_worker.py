"""One engine of `benchmarks.sampler` in a process of its own, asked over pipes.

The process reads one JSON request a line and answers each with one JSON line; between requests it
computes nothing. `Worker` is the asking side.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from benchmarks.sampler_workload import ModelShape, Part, play

ROOT = Path(__file__).resolve().parent.parent
TAIL = 4000  # characters of a dead worker's last words


class WorkerError(RuntimeError):
    """The process of an engine ended; the message has the end of what it wrote."""


class Worker:
    """A process that answers lines of JSON: `command`, or an adapter by its module's name."""

    def __init__(self, command: Sequence[str]):
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, cwd=ROOT, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip

    @classmethod
    def of(cls, adapter: str, python: str = sys.executable) -> "Worker":
        return cls([python, "-m", "benchmarks.sampler_worker", adapter])

    def ask(self, what: str, **arguments) -> dict:
        """
        Raises:
            WorkerError: the process ended instead of answering.
        """
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            print(json.dumps({"what": what, **arguments}), file=self._process.stdin, flush=True)
        if answer := self._process.stdout.readline():
            return json.loads(answer)
        code = self._process.wait()
        self._log.seek(0)
        raise WorkerError(f"an engine ended with code {code}:\n{self._log.read()[-TAIL:]}")

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_) -> None:
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=30)
        self._process.kill()
        self._log.close()


class Engines:
    """Answers requests with engines of one adapter, of which the latest is kept."""

    def __init__(self, adapter: str):
        import jax

        self._make = importlib.import_module(adapter).make_engine
        self._shape, self._key, self._latest, self._compiles = ModelShape(), None, None, 0
        jax.monitoring.register_event_duration_secs_listener(self._count)
        self._about = {"jax": jax.__version__, "device": jax.devices()[0].device_kind}

    def about(self) -> dict:
        return self._about

    def peaks(self, rows: list[int]) -> dict:
        from benchmarks import sampler_roofline

        return dataclasses.asdict(sampler_roofline.measure(self._shape, rows))

    def play(self, part: dict, seed: int) -> dict:
        """One round. `wall` and `cpu` (of all threads) are seconds inside `generate` alone."""
        part = Part(**part)
        engine = self._engine(part)
        clock = Clock(engine.generate)
        steps, compiles = engine.slot_steps, self._compiles
        calls = play(part, self._shape.vocab, seed, clock)
        return {
            "calls": [[dataclasses.astuple(reply) for reply in call] for call in calls],
            "wall": clock.wall,
            "cpu": clock.cpu,
            "slot_steps": engine.slot_steps - steps,
            "compiles": self._compiles - compiles,
            "num_params": engine.num_params,
        }

    def _engine(self, part: Part):
        # Stop ids belong to the key because one of the two compiles them in.
        key = part.max_len, part.slots, part.num_stop
        if key != self._key:
            self._latest = None  # its memory is free before the next one needs its own
            self._key, self._latest = key, self._make(self._shape, part.max_len, part.slots)
        return self._latest

    def _count(self, event: str, _seconds: float, **_) -> None:
        self._compiles += event.endswith("/backend_compile_duration")


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


def serve(engines: Engines, requests: TextIO, answers: TextIO) -> None:
    for line in requests:
        request = json.loads(line)
        answer = getattr(engines, request.pop("what"))(**request)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w") as pipe:
        os.dup2(2, 1)  # whatever a library prints must not look like an answer
        serve(Engines(sys.argv[1]), sys.stdin, pipe)
