"""One side of a benchmark in a process of its own, asked over pipes.

The process reads one JSON request a line and answers each with one JSON line; between requests it
computes nothing. `Worker` is the asking side. `python -m benchmarks.worker SERVER ADAPTER` is the
other one: module SERVER has a class `Server`, a `JaxServer` over the module ADAPTER.
"""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
TAIL = 4000  # characters of a dead worker's last words


class WorkerError(RuntimeError):
    """The process ended; the message has the end of what it wrote."""


class Worker:
    """A process that answers lines of JSON: `command`, or an adapter by its module's name."""

    def __init__(self, command: Sequence[str]):
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, cwd=ROOT, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip

    @classmethod
    def of(cls, server: str, adapter: str, python: str = sys.executable) -> "Worker":
        return cls([python, "-m", "benchmarks.worker", server, adapter])

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
        raise WorkerError(f"a worker ended with code {code}:\n{self._log.read()[-TAIL:]}")

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_) -> None:
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=30)
        self._process.kill()
        self._log.close()


class JaxServer:
    """Answers requests by its methods' names.

    Attributes:
        compiles: programs that this process has compiled.
    """

    def __init__(self, adapter: ModuleType):
        import jax

        self.adapter, self.compiles = adapter, 0
        jax.monitoring.register_event_duration_secs_listener(self._count)
        self._about = {"jax": jax.__version__, "device": jax.devices()[0].device_kind}

    def about(self) -> dict:
        return self._about

    def _count(self, event: str, _seconds: float, **_) -> None:
        self.compiles += event.endswith("/backend_compile_duration")


def serve(server: JaxServer, requests: TextIO, answers: TextIO) -> None:
    for line in requests:
        request = json.loads(line)
        answer = getattr(server, request.pop("what"))(**request)
        print(json.dumps(answer), file=answers, flush=True)


def main(server: str, adapter: str) -> None:
    with os.fdopen(os.dup(1), "w") as pipe:
        os.dup2(2, 1)  # whatever a library prints must not look like an answer
        made = importlib.import_module(server).Server(importlib.import_module(adapter))
        serve(made, sys.stdin, pipe)


if __name__ == "__main__":
    main(*sys.argv[1:])
