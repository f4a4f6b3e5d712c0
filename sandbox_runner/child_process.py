"""One child process as its pool sees it, and the calls that wait for its answers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable

from sandbox_runner import protocol
from sandbox_runner.types import EnvError, RunnerError
from sandbox_runner.zygote_client import ZygoteClient

NOT_CONFINED = -2  # instead of a wait status: it ended before any program was in it
_PAGE = os.sysconf("SC_PAGE_SIZE")


class UnsendableError(RunnerError):
    """A request is too long for a frame, or no text."""


class Call:
    """A request on its way. `answered` is called once, when `answer` is set.

    Raises UnsendableError.
    """

    __slots__ = ("answer", "answered", "child", "cpu", "frame", "request")

    def __init__(self, child: ChildProcess, request: protocol.Request, cpu: float) -> None:
        try:
            self.frame = protocol.encode(request)
        except protocol.ProtocolError as error:
            raise UnsendableError(f"the request cannot be sent: {error}") from error
        self.child = child
        self.request = request
        self.cpu = cpu
        self.answered: Callable[[Call], None] = _nobody_cares
        self.answer: protocol.Answer | EnvError | RunnerError | None = None


def cpu_clock(pid: int) -> int:
    """For `time.clock_gettime`: the CPU time of a process, as clock_getcpuclockid(3) has it."""
    return (~pid << 3) | 2


def _nobody_cares(call: Call) -> None:
    pass


class ChildProcess:
    """`error` is set once and for all when the child is lost. `number` is what its zygote calls it,
    None until it was forked; `pid` its process id here, None also when it had ended by then."""

    def __init__(self, zygote: ZygoteClient, connection: socket.socket) -> None:
        self.zygote = zygote
        self.connection = connection
        self.number: int | None = None
        self.pid: int | None = None
        self.pidfd: int | None = None
        self.error: EnvError | RunnerError | None = None
        self.hung_up = False  # it closed its end; how it died is being asked
        self.sessions: set[int] = set()
        self.inbox = protocol.Inbox()
        self.outbox = b""
        self.blocked = False  # the outbox waits for the socket
        self.calls: deque[Call] = deque()
        self.cpu_clock = 0  # of `pid`
        self.cpu_base = 0.0
        self.wall_base = time.monotonic()
        self.sleep = Sleep()
        self.paused_at: float | None = None
        self.memory = Memory()

    def forked(self, number: int, pidfd: int) -> None:
        """It exists; it may have ended already. The pidfd is the child's from now on."""
        self.number, self.pidfd = number, pidfd
        with open(f"/proc/self/fdinfo/{pidfd}") as lines:
            pid = next((int(line[4:]) for line in lines if line.startswith("Pid:")), -1)
        if pid > 0:
            self.pid, self.cpu_clock = pid, cpu_clock(pid)
            self.cpu_base = self.cpu() or 0.0

    def cpu(self) -> float | None:
        """CPU seconds used so far; None when the process is unknown or gone."""
        if self.pid is None:
            return None
        try:
            return time.clock_gettime(self.cpu_clock)
        except OSError:
            return None

    def pause(self) -> None:
        """Compute no more until `resume`; no clock runs meanwhile."""
        if self.paused_at is None:
            self._signal(signal.SIGSTOP)
            self.paused_at = time.monotonic()

    def resume(self) -> None:
        if self.paused_at is not None:
            paused = time.monotonic() - self.paused_at
            self.wall_base += paused
            self.sleep.forgive(paused)
            self.paused_at = None
            self._signal(signal.SIGCONT)

    def release(self) -> None:
        """Kill the process and give its descriptors back."""
        self.connection.close()
        if self.pidfd is not None:
            self._signal(signal.SIGKILL)
            os.close(self.pidfd)
            self.pidfd = None

    def _signal(self, number: signal.Signals) -> None:
        if self.pidfd is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self.pidfd, number)


class Sleep:
    """How long a process has done nothing: neither run nor waited for a processor.

    The kernel counts a wait only when it is over. So for one that waits now the figure at the last
    look holds, and for one that has run since then no more than the time since then is in doubt.
    """

    def __init__(self) -> None:
        self._asleep = 0.0
        self._base: float | None = None
        self._slices, self._looked_at = b"", 0.0

    def begin(self) -> None:
        """Count from the next look on."""
        self._base = None

    def forgive(self, seconds: float) -> None:
        """So long it was made to wait."""
        if self._base is not None:
            self._base += seconds

    def look(self, pid: int, now: float) -> float:
        """Seconds since the first look after `begin`, at least; 0.0 when the process is gone or the
        kernel does not count."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:
                state = stat.read().rpartition(b")")[2].split()[0]
            with open(f"/proc/{pid}/schedstat", "rb") as schedstat:
                ran, waited, slices = schedstat.read().split()
        except (OSError, ValueError):
            return 0.0
        asleep = now - (int(ran) + int(waited)) * 1e-9
        if self._base is None:
            self._base = self._asleep = asleep
        elif state != b"R":
            self._asleep = asleep
        elif slices != self._slices:
            self._asleep = max(self._asleep, asleep - (now - self._looked_at))
        self._slices, self._looked_at = slices, now
        return self._asleep - self._base


class Memory:
    """What one child's memory costs the machine, not counting what it shares with its zygote.

    The exact figure takes the kernel a millisecond and is read rarely, if it may be read: root
    alone may. Between two readings a child cannot have taken more pages than it had page faults
    (large pages are off), nor has it more pages in all than are its own.
    """

    def __init__(self) -> None:
        self.most = 0  # bytes
        self._exact = 0
        self._faults = 0  # at the last exact reading; a process is forked with none

    def look(self, pid: int) -> None:
        """Bring `most` up to date; cheap. It stays what it was for a process that is gone."""
        with contextlib.suppress(OSError):
            self.most = min(self._exact + (_faults(pid) - self._faults) * _PAGE, _own_bytes(pid))

    def read(self, pid: int) -> int:
        """Bytes, as exactly as they may be read."""
        self.look(pid)
        try:
            faults = _faults(pid)
            with open(f"/proc/{pid}/smaps_rollup", "rb") as lines:
                private = [line.split()[1] for line in lines if line.startswith(b"Private_")]
        except OSError:
            return self.most
        self._exact, self._faults = sum(map(int, private)) << 10, faults
        self.most = self._exact
        return self._exact


def _faults(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[7])


def _own_bytes(pid: int) -> int:
    """Memory of no file: the process's own, and what it still shares with its zygote."""
    with open(f"/proc/{pid}/statm", "rb") as statm:
        _, resident, of_files = map(int, statm.read().split()[:3])
    return (resident - of_files) * _PAGE


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def cause_of_death(status: int, loading: bool) -> EnvError | RunnerError:
    """What a child's wait status says. `loading`: it had not loaded its program yet."""
    if status == NOT_CONFINED:
        return RunnerError("a child could not be confined, and ran nothing: see the zygote's log")
    if status < 0:
        return RunnerError("the zygote does not know how a child ended")
    stage = "load" if loading else "robustness"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGPROF:
            return EnvError("limits", "the CPU time of a call was used up")
        if number == signal.SIGXCPU:
            return EnvError("limits", "the CPU time of the process was used up")
        if number == signal.SIGKILL:
            return EnvError("limits", "the process was killed for its memory or hung up")
        return EnvError(stage, f"the process was ended by {_signal_name(number)}")
    if os.WIFEXITED(status):
        return EnvError(stage, f"the process exited with status {os.WEXITSTATUS(status)}")
    return EnvError(stage, "the process ended")
