"""Several processes that belong together, on this machine."""

import contextlib
import os
import pathlib
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence

from spade_jax.metrics import read_metrics


def free_address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def as_group(command: Sequence[str], count: int) -> list[list[str]]:
    """The command line of each of `count` processes of one run."""
    flags = {
        "enabled": True, "coordinator": free_address(), "num_processes": count, "heartbeat_s": 10,
    }  # fmt: skip
    return [
        [
            *command,
            *(f"--config.distributed.{key}={value}" for key, value in flags.items()),
            f"--config.distributed.process_id={index}",
        ]
        for index in range(count)
    ]


class Run:
    """Processes under way, numbered as their commands; each prints into a file."""

    def __init__(self, processes: list[subprocess.Popen], outputs: list[pathlib.Path]):
        self.processes, self._outputs = processes, outputs

    def wait(self, seconds: float) -> list[int]:
        """Exit codes; raises subprocess.TimeoutExpired when a process has not ended by then."""
        end = time.monotonic() + seconds
        return [each.wait(timeout=max(0.1, end - time.monotonic())) for each in self.processes]

    def wait_for_step(self, workdir: pathlib.Path, step: int, seconds: float) -> None:
        """Returns once the metrics of a step are written."""
        end = time.monotonic() + seconds
        while not any(row["step"] >= step for row in read_metrics(workdir)):
            assert all(each.poll() is None for each in self.processes), self.texts()
            assert time.monotonic() < end, self.texts()
            time.sleep(0.05)

    def texts(self) -> list[str]:
        """What each process has printed so far, errors included."""
        return [output.read_text() for output in self._outputs]


@contextlib.contextmanager
def started(
    commands: Sequence[Sequence[str]], logs: pathlib.Path, devices: int = 1
) -> Iterator[Run]:
    """Starts them, with so many CPU devices each; none is left in the end."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    logs.mkdir(parents=True, exist_ok=True)
    outputs = [logs / f"{index}.log" for index in range(len(commands))]
    processes = []
    for command, output in zip(commands, outputs, strict=True):
        with output.open("w") as out:
            processes.append(
                subprocess.Popen(
                    command, stdout=out, stderr=subprocess.STDOUT, env=environment
                )
            )
    try:
        yield Run(processes, outputs)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait(timeout=30)


def descendants(pid: int) -> set[int]:
    """The processes below `pid`."""
    children: dict[int, list[int]] = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(folder.name))
    found, left = set(), [pid]
    while left:
        below = children.get(left.pop(), [])
        found.update(below)
        left += below
    return found
