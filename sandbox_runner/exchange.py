"""Many children at once: send requests, collect answers, end the child that breaks a rule."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterable

from sandbox_runner import protocol
from sandbox_runner.checks import check_answer, largest_answer
from sandbox_runner.types import EnvError, Limits, RunnerError
from sandbox_runner.zygote_client import ZygoteClient

_TICK = 0.05  # seconds between two looks at the deadlines
_GRACE_CPU = 0.25  # the child's own timer is exact; the pool's is the one it cannot touch


class Child:
    """One child process as the pool sees it. `error` is set once and for all when it is lost."""

    def __init__(self, zygote: ZygoteClient, connection: socket.socket) -> None:
        self.zygote = zygote
        self.connection = connection
        self.pid: int | None = None
        self.pidfd: int | None = None
        self.error: EnvError | RunnerError | None = None
        self.sessions: set[int] = set()
        self.inbox = protocol.Inbox()
        self.outbox = bytearray()
        self.blocked = False  # the outbox waits for the socket
        self.calls: deque[Call] = deque()
        self.cpu_base = 0.0
        self.wall_base = time.monotonic()
        self.sleep_base: float | None = None

    def cpu(self) -> float | None:
        """CPU seconds used so far; None when the process is unknown or gone."""
        if self.pid is None:
            return None
        try:
            return time.clock_gettime((~self.pid << 3) | 2)  # clock_getcpuclockid(3)
        except OSError:
            return None

    def slept(self, now: float) -> float:
        """Seconds neither run nor waited for a processor, since the first look at this call."""
        try:
            with open(f"/proc/{self.pid}/schedstat", "rb") as schedstat:
                ran, waited = schedstat.read().split()[:2]
        except (OSError, ValueError):
            return 0.0  # a kernel without it, or a process that is gone
        asleep = now - (int(ran) + int(waited)) * 1e-9
        if self.sleep_base is None:
            self.sleep_base = asleep
        return asleep - self.sleep_base

    def kill(self) -> None:
        if self.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)


class Call:
    """A request on its way; `answer` is set when `exchange` returns."""

    def __init__(self, child: Child, request: protocol.Request, cpu: float) -> None:
        try:
            self.frame = protocol.encode(request)
        except protocol.ProtocolError as error:
            raise RunnerError(f"the request cannot be sent: {error}") from error
        self.child = child
        self.request = request
        self.cpu = cpu
        self.answer: protocol.Answer | EnvError | RunnerError | None = None


class Exchange:
    """Owns the children's sockets. Not for use by several threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._epoll = select.epoll()
        self._children: dict[int, Child] = {}  # by file descriptor of the socket
        self._zygotes: dict[int, ZygoteClient] = {}
        self._forking: dict[tuple[ZygoteClient, int], Child] = {}
        self._in_flight = 0
        self._check_at = 0.0  # next look at the deadlines; kept from run to run, which may be short

    def __len__(self) -> int:
        return len(self._children)

    def start_zygote(self, hash_seed: int) -> ZygoteClient:
        zygote = ZygoteClient(
            self._limits,
            hash_seed,
            lambda request, pid, pidfd: self._forked((zygote, request), pid, pidfd),
        )
        self._zygotes[zygote.fileno()] = zygote
        self._epoll.register(zygote.fileno(), select.EPOLLIN)
        return zygote

    def drop_zygote(self, zygote: ZygoteClient) -> None:
        """Forget a zygote that is dead or no longer wanted; its children are lost."""
        if self._zygotes.pop(zygote.fileno(), None) is None:
            return
        self._epoll.unregister(zygote.fileno())
        error = zygote.error()
        for child in [c for c in self._children.values() if c.zygote is zygote]:
            self.end(child, error)
        zygote.close()

    def start_child(self, zygote: ZygoteClient) -> Child:
        if len(self) >= self._limits.max_children:
            raise RunnerError(
                f"{len(self)} children are alive: close sessions or raise Limits.max_children"
            )
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                request = zygote.fork(theirs)
            except RunnerError:
                ours.close()
                raise
        child = Child(zygote, ours)
        self._forking[zygote, request] = child
        self._children[ours.fileno()] = child
        self._epoll.register(ours.fileno(), select.EPOLLIN)
        return child

    def end(self, child: Child, error: EnvError | RunnerError) -> None:
        """Kill the child; `error` answers all its present and later calls."""
        if child.error is not None:
            return
        child.error = error
        child.kill()
        for call in child.calls:
            call.answer = error
        self._in_flight -= len(child.calls)
        child.calls.clear()
        descriptor = child.connection.fileno()
        self._epoll.unregister(descriptor)
        del self._children[descriptor]
        child.connection.close()
        if child.pidfd is not None:
            os.close(child.pidfd)
            child.pidfd = None

    def run(self, calls: Iterable[Call]) -> None:
        """Answer every call. Raises nothing: failures are answers."""
        waiting = deque(calls)
        self._feed(waiting)
        while self._in_flight or waiting:
            for descriptor, events in self._epoll.poll(_TICK):
                self._handle(descriptor, events)
            now = time.monotonic()
            if now >= self._check_at:
                self._check_deadlines(now)
                self._check_at = now + _TICK
            if waiting:
                self._feed(waiting)

    def close(self) -> None:
        for child in list(self._children.values()):
            self.end(child, RunnerError("the pool is closed"))
        for zygote in list(self._zygotes.values()):
            zygote.close()
        self._zygotes.clear()
        self._epoll.close()

    def _forked(self, key: tuple[ZygoteClient, int], pid: int, pidfd: int) -> None:
        child = self._forking.pop(key)
        child.pid, child.pidfd = pid, pidfd
        if child.error is not None:  # ended before it was known
            child.kill()
            os.close(pidfd)
            child.pidfd = None

    def _feed(self, waiting: deque[Call]) -> None:
        touched = {}
        while waiting and self._in_flight < self._limits.max_in_flight:
            call = waiting.popleft()
            child = call.child
            if child.error is not None:
                call.answer = child.error
                continue
            child.outbox += call.frame
            child.calls.append(call)
            self._in_flight += 1
            if len(child.calls) == 1:
                self._begin(child, time.monotonic())
            touched[child] = None
        for child in touched:
            self._flush(child)

    def _begin(self, child: Child, now: float) -> None:
        """The clocks of the call at the head of the child's queue start. CPU time counts from the
        last answer: what a program computes without being asked is charged to the next call."""
        child.wall_base, child.sleep_base = now, None

    def _flush(self, child: Child) -> None:
        try:
            sent = child.connection.send(child.outbox)
            del child.outbox[:sent]
        except BlockingIOError:
            pass
        except OSError:
            return  # it is gone: the read side reports that, with what it had still said
        blocked = bool(child.outbox)
        if blocked != child.blocked:
            child.blocked = blocked
            events = select.EPOLLIN | (select.EPOLLOUT if blocked else 0)
            self._epoll.modify(child.connection.fileno(), events)

    def _handle(self, descriptor: int, events: int) -> None:
        zygote = self._zygotes.get(descriptor)
        if zygote is not None:
            try:
                zygote.handle()
            except RunnerError:
                self.drop_zygote(zygote)
            return
        child = self._children.get(descriptor)
        if child is None:
            return
        if events & select.EPOLLOUT:
            self._flush(child)
        if events & ~select.EPOLLOUT:
            self._receive(child)

    def _receive(self, child: Child) -> None:
        try:
            data = child.connection.recv(1 << 18)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._lost(child)
            return
        try:
            child.inbox.add(data)
            while child.calls:
                call = child.calls[0]
                body = child.inbox.take(largest_answer(call.request, self._limits))
                if body is None:
                    return
                answer = protocol.decode_answer(body, type(call.request))
                call.answer = check_answer(call.request, answer, self._limits)
                child.calls.popleft()
                self._in_flight -= 1
                child.cpu_base = child.cpu() or 0.0
                if child.calls:
                    self._begin(child, time.monotonic())
            if child.inbox:
                raise protocol.ProtocolError("an answer without a request")
        except protocol.ProtocolError as error:
            self.end(child, EnvError("robustness", f"the process spoke out of turn: {error}"))

    def _lost(self, child: Child) -> None:
        """The child closed its end: find out how it died."""
        zygote = child.zygote
        try:
            zygote.wait_for(lambda: child.pid is not None)
            status = zygote.status(child.pid)
        except RunnerError as error:
            self.end(child, error)
            self.drop_zygote(zygote)
            return
        loading = bool(child.calls) and isinstance(child.calls[0].request, protocol.Open)
        self.end(child, _cause_of_death(status, loading))

    def _check_deadlines(self, now: float) -> None:
        for child in list(self._children.values()):
            error = self._overdue(child, now) if child.calls else self._restless(child)
            if error is not None:
                self.end(child, error)

    @staticmethod
    def _restless(child: Child) -> EnvError | None:
        cpu = child.cpu()
        if cpu is None or cpu - child.cpu_base <= _GRACE_CPU:
            return None
        return EnvError("limits", "went on computing after it had answered")

    def _overdue(self, child: Child, now: float) -> EnvError | RunnerError | None:
        limits, call = self._limits, child.calls[0]
        cpu = child.cpu()
        if child.pid is None:
            late = now - child.wall_base > limits.call_wall
            return RunnerError("the zygote did not fork in time") if late else None
        if cpu is not None and cpu - child.cpu_base > call.cpu + _GRACE_CPU:
            return EnvError("limits", f"used more than {call.cpu:g} s of CPU time")
        if child.slept(now) > limits.sleep_wall:
            return EnvError("limits", f"slept for {limits.sleep_wall:g} s instead of answering")
        if now - child.wall_base > limits.call_wall:
            return EnvError("limits", f"gave no answer within {limits.call_wall:g} s")
        return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _cause_of_death(status: int, loading: bool) -> EnvError:
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
