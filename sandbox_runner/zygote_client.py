"""The pool's side of one zygote: start it by exec, ask it for children, notice that it died."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from sandbox_runner import confine
from sandbox_runner.types import Limits, RunnerError

_MAIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from sandbox_runner.zygote import main; main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])"
)
_ANSWER_WALL = 10.0
_TAIL_BYTES = 2000
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class ZygoteClient:
    """`forked(request, pid, pidfd)` is called for each child; it then owns the pidfd.

    Starting is asynchronous: the first `fork` waits until the zygote is ready. The zygote is
    started by exec (no `preexec_fn`, so the calling process is never forked by Python) in its own
    session, with its own environment variables and `PYTHONHASHSEED` set to `hash_seed`.
    """

    def __init__(
        self, limits: Limits, hash_seed: int, forked: Callable[[int, int, int], None]
    ) -> None:
        self._limits = limits
        self._forked = forked
        self._ready = False
        self.report: confine.Report = {}
        self._statuses: dict[int, int] = {}
        self._requests = 0
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                self._command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=_environment(hash_seed),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        ours.setblocking(False)
        self._socket = ours

    def _command(self, descriptor: int) -> list[str]:
        root = str(Path(__file__).resolve().parent.parent)
        path = [root, *(entry for entry in sys.path if os.path.isabs(entry))]
        limits = msgspec.json.encode(self._limits).decode()
        return [
            sys.executable, "-c", _MAIN, json.dumps(path), str(descriptor), str(os.getpid()), limits
        ]  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._socket.fileno()

    def alive(self) -> bool:
        return self._process.poll() is None and self._socket.fileno() >= 0

    def error(self) -> RunnerError:
        """What to raise when this zygote has failed, with the end of its log."""
        status = self._process.poll()
        how = "does not answer" if status is None else f"ended with status {status}"
        size = os.fstat(self._log.fileno()).st_size
        start = max(0, size - _TAIL_BYTES)
        tail = os.pread(self._log.fileno(), _TAIL_BYTES, start).decode("utf-8", "replace").strip()
        return RunnerError(f"the sandbox's zygote {how}; its log ends: {tail or '(empty)'}")

    def wait_ready(self) -> None:
        self._pump(lambda: self._ready, self._limits.start_wall)

    def fork(self, connection: socket.socket) -> int:
        """Ask for a child that serves `connection`; the number of the request."""
        self.wait_ready()
        request = self._next()
        self._send(b"F" + struct.pack(">I", request), [connection.fileno()])
        return request

    def status(self, pid: int) -> int:
        """The wait status of child `pid`, -1 when unknown. It is killed if it still runs."""
        request = self._next()
        self._send(b"S" + struct.pack(">II", request, pid), [])
        self._pump(lambda: request in self._statuses, _ANSWER_WALL)
        return self._statuses.pop(request)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Handle messages until `condition` holds. Raises RunnerError if it never does."""
        self._pump(condition, _ANSWER_WALL)

    def handle(self) -> None:
        """Take in every message that has arrived. Raises RunnerError when the zygote is gone."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, 4096, 1)
            except BlockingIOError:
                return
            except OSError as error:
                raise self.error() from error
            if not data:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(1.0)
                raise self.error()
            self._dispatch(data, descriptors)

    def close(self) -> None:
        """Ends the zygote and, through it, all its children."""
        self._socket.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5.0)
        self._log.close()

    def _dispatch(self, data: bytes, descriptors: list[int]) -> None:
        kind = data[:1]
        if kind == b"R":
            self.report = msgspec.json.decode(data[1:], type=confine.Report)
            confine.insist(self.report, self._limits.allow_missing)
            self._ready = True
        elif kind == b"F":
            request, pid = struct.unpack(">II", data[1:])
            self._forked(request, pid, descriptors[0])
        elif kind == b"S":
            request, status = struct.unpack(">Ii", data[1:])
            self._statuses[request] = status

    def _next(self) -> int:
        self._requests += 1
        return self._requests

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        """Never blocks for long: while the zygote is busy its own messages are taken in."""
        deadline = time.monotonic() + _ANSWER_WALL
        while True:
            try:
                socket.send_fds(self._socket, [message], descriptors)
                return
            except BlockingIOError:
                self._wait(select.POLLIN | select.POLLOUT, deadline)
                self.handle()
            except OSError as error:
                raise self.error() from error

    def _pump(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self.handle()
        while not condition():
            self._wait(select.POLLIN, deadline)
            self.handle()

    def _wait(self, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._socket, events)
        left = deadline - time.monotonic()
        if left <= 0 or not (poll.poll(min(left, 1.0) * 1000) or self.alive()):
            raise self.error()


def _environment(hash_seed: int) -> dict[str, str]:
    """Nothing of the caller's environment but what finding programs and libraries takes."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    fixed = {"PYTHONHASHSEED": str(hash_seed), "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
    return kept | fixed | dict.fromkeys(_ONE_THREAD, "1")
