"""The pool's side of one zygote: start it by exec, ask it for children, notice that it died."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from sandbox_runner import confine
from sandbox_runner.types import Limits, RunnerError

# What libraries do after a fork is for programs with threads; it would cost every child a megabyte.
_MAIN = (
    "import json, os, sys; os.register_at_fork = lambda **_: None; "
    "sys.path[:] = json.loads(sys.argv[1]); "
    "from sandbox_runner.keeper import main; main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])"
)
_ANSWER_WALL = 20.0  # seconds within which a zygote that is ready answers a request
_END_WALL = 1.0  # seconds in which one that has hung up ends, so that its status can be told
_TAIL_BYTES = 2000
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class ZygoteClient:
    """Nothing here waits for a living zygote: requests are queued, and `handle` sends and receives
    what it can. For the end of a dead one it waits a moment.

    `forked(request, number, pidfd)` is called for each child and then owns the pidfd, which is None
    when this process has no room for it; a negative number says that there is no child.
    `ended(request, status)` for each answer to `ask`, with the child's wait status, -1 when the
    zygote does not know it. The zygote is started by exec (no `preexec_fn`, so the calling process
    is never forked by Python) in its own process group, with its own environment variables and
    `PYTHONHASHSEED` set to `hash_seed`.
    """

    def __init__(
        self,
        limits: Limits,
        hash_seed: int,
        forked: Callable[[int, int, int | None], None],
        ended: Callable[[int, int], None],
    ) -> None:
        self._limits = limits
        self._forked, self._ended = forked, ended
        self.ready = False
        self.failure: RunnerError | None = None  # why it was given up
        self.report: confine.Report = {}
        self._requests = 0
        self._queue: deque[tuple[bytes, socket.socket | None]] = deque()
        self._unanswered: dict[int, float] = {}  # request -> when it was asked, oldest first
        self._started = time.monotonic()
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
                process_group=0,
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
    def keeper_pid(self) -> int:
        """Of the process that was started, whose only child is the zygote itself."""
        return self._process.pid

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def blocked(self) -> bool:
        """Whether something waits to be sent that can be sent as soon as the socket has room."""
        return self.ready and bool(self._queue)

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

    def fork(self, connection: socket.socket) -> int:
        """Ask for a child that serves `connection`, which is closed here once it was sent; the
        number of the request."""
        return self._ask(b"F", b"", connection)

    def ask(self, child: int) -> int:
        """Ask how a child ended, which is killed if it still runs; the number of the request."""
        return self._ask(b"S", struct.pack(">I", child), None)

    def handle(self) -> None:
        """Take in every message that has arrived and send what waits. Raises RunnerError when the
        zygote is gone or its host is not safe."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, 4096, 1)
            except BlockingIOError:
                break
            except OSError as error:
                raise self.error() from error
            if not data:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_END_WALL)
                raise self.error()
            self._dispatch(data, descriptors)
        self._send()

    def check(self, now: float) -> None:
        """Raises RunnerError when the zygote has kept its pool waiting for too long."""
        late = not self.ready and now - self._started > self._limits.start_wall
        if self.ready and self._unanswered:
            late = now - next(iter(self._unanswered.values())) > _ANSWER_WALL
        if late or not self.alive():
            raise self.error()

    def close(self) -> None:
        """Ends the zygote and, through it, all its children."""
        self._socket.close()
        while self._queue:
            _, connection = self._queue.popleft()
            if connection is not None:
                connection.close()
        self._process.kill()  # the kernel then ends the zygote and its children
        try:
            self._process.wait(5.0)
        finally:
            self._log.close()

    def _ask(self, kind: bytes, rest: bytes, connection: socket.socket | None) -> int:
        self._requests += 1
        self._queue.append((kind + struct.pack(">I", self._requests) + rest, connection))
        self._unanswered[self._requests] = time.monotonic()
        self._send()
        return self._requests

    def _send(self) -> None:
        while self.blocked:
            message, connection = self._queue[0]
            try:
                if connection is None:
                    self._socket.send(message)
                else:
                    socket.send_fds(self._socket, [message], [connection.fileno()])
            except OSError:  # no room now, or the zygote is gone, which reading will tell
                return
            self._queue.popleft()
            if connection is not None:
                connection.close()

    def _dispatch(self, data: bytes, descriptors: list[int]) -> None:
        kind = data[:1]
        if kind == b"R":
            self.report = msgspec.json.decode(data[1:], type=confine.Report)
            confine.insist(self.report, self._limits.allow_missing)
            self.ready = True
            now = time.monotonic()
            self._unanswered = dict.fromkeys(self._unanswered, now)
            return
        request, number = struct.unpack(">Ii", data[1:])
        self._unanswered.pop(request, None)
        if kind == b"F":
            self._forked(request, number, descriptors[0] if descriptors else None)
        else:
            self._ended(request, number)


def _environment(hash_seed: int) -> dict[str, str]:
    """Nothing of the caller's environment but what finding programs and libraries takes."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    fixed = {"PYTHONHASHSEED": str(hash_seed), "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
    return kept | fixed | dict.fromkeys(_ONE_THREAD, "1")
