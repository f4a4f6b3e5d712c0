"""Runs of several processes on this machine, for the tests."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Run:
    """The processes of one run; `outputs` are files with what each printed, both streams."""

    def __init__(self, command: Sequence[str], count: int, logs: pathlib.Path):
        """Starts `command` `count` times, as a cluster would, one CPU device each."""
        address = f"127.0.0.1:{free_port()}"
        logs.mkdir(parents=True, exist_ok=True)
        self.outputs = [logs / f"{index}.log" for index in range(count)]
        self.processes = []
        for index, output in enumerate(self.outputs):
            with output.open("w") as out:
                self.processes.append(
                    subprocess.Popen(
                        [
                            *command, "--config.distributed.enabled=True",
                            f"--config.distributed.coordinator={address}",
                            f"--config.distributed.num_processes={count}",
                            f"--config.distributed.process_id={index}",
                        ],
                        stdout=out, stderr=subprocess.STDOUT,
                        env={**os.environ, "JAX_PLATFORMS": "cpu"},
                    )
                )  # fmt: skip

    def wait(self, seconds: float) -> list[int]:
        """Exit codes, once all processes have ended."""
        deadline = time.monotonic() + seconds
        return [
            process.wait(timeout=max(0.1, deadline - time.monotonic()))
            for process in self.processes
        ]

    def texts(self) -> list[str]:
        return [output.read_text() for output in self.outputs]

    def kill(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait(timeout=30)


@contextlib.contextmanager
def started(command: Sequence[str], count: int, logs: pathlib.Path) -> Iterator[Run]:
    """A run of which nothing is left in the end."""
    run = Run(command, count, logs)
    try:
        yield run
    finally:
        run.kill()


def descendants(pid: int) -> set[int]:
    """Processes below `pid`, which stays out."""
    children: dict[int, list[int]] = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(stat[1]), []).append(int(folder.name))
    found, left = set(), [pid]
    while left:
        below = children.get(left.pop(), [])
        found.update(below)
        left += below
    return found
