"""Many children at once: send requests, collect answers, end the child that breaks a rule."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterable

from sandbox_runner import protocol
from sandbox_runner.checks import check_answer, largest_answer
from sandbox_runner.child_process import Call, ChildProcess
from sandbox_runner.types import EnvError, Limits, RunnerError
from sandbox_runner.zygote_client import ZygoteClient

TICK = 0.05  # seconds between two looks at the deadlines
_SHORT_WALL, _SHORT_CPU = 0.1, 0.002  # a call of more seconds than both is a long one
_GRACE_CPU = 0.25  # the child's own timer is exact; the pool's is the one it cannot touch


class Exchange:
    """Owns the children's sockets and never waits, except in `turn` for as long as it is told.

    `submit` takes calls, `turn` moves them on; each call says when it is answered. All failures are
    answers. Not for use by several threads.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._total_bytes = limits.total_bytes or _half_of_the_machine()
        self._epoll = select.epoll()
        self._arrived = memoryview(bytearray(1 << 18))
        self._children: dict[int, ChildProcess] = {}  # by file descriptor of the socket
        self._zygotes: dict[int, ZygoteClient] = {}
        self._forking: dict[tuple[ZygoteClient, int], ChildProcess] = {}
        self._dying: dict[tuple[ZygoteClient, int], ChildProcess] = {}
        self._waiting: deque[Call] = deque()
        self._served: set[ChildProcess] = set()  # since the last look at their memory
        self._quick: set[ChildProcess] = set()  # that had a call since the last tick
        self._quick_until, self._ticks = 0.0, 0
        self._slow: dict[ChildProcess, float] = {}  # in a long call -> its seconds of CPU
        self._processors = len(os.sched_getaffinity(0))
        self._in_flight = 0
        self._check_at = 0.0  # next look at the deadlines

    def __len__(self) -> int:
        return len(self._children)

    def fileno(self) -> int:
        """A descriptor that is readable when `turn` has something to do."""
        return self._epoll.fileno()

    def start_zygote(self, hash_seed: int) -> ZygoteClient:
        zygote = ZygoteClient(
            self._limits,
            hash_seed,
            lambda request, number, pidfd: self._forked((zygote, request), number, pidfd),
            lambda request, status: self._ended((zygote, request), status),
        )
        self._zygotes[zygote.fileno()] = zygote
        self._epoll.register(zygote.fileno(), select.EPOLLIN)
        return zygote

    def drop_zygote(self, zygote: ZygoteClient, error: RunnerError | None = None) -> None:
        """Forget a zygote that is dead or no longer wanted; its children are lost."""
        if self._zygotes.pop(zygote.fileno(), None) is None:
            return
        self._epoll.unregister(zygote.fileno())
        zygote.failure = error = error or zygote.error()
        zygote.close()
        for asked in (self._forking, self._dying):
            for key in [key for key in asked if key[0] is zygote]:
                self.end(asked.pop(key), error)
        for child in [c for c in self._children.values() if c.zygote is zygote]:
            self.end(child, error)

    def start_child(self, zygote: ZygoteClient) -> ChildProcess:
        """A child that can be given calls at once, though it may not be there yet."""
        if len(self) >= self._limits.max_children:
            raise RunnerError(
                f"{len(self)} children are alive: close sessions or raise Limits.max_children"
            )
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise RunnerError(
                f"no more sockets for children ({error}): raise the limit on open files"
            ) from error
        ours.setblocking(False)
        child = ChildProcess(zygote, ours)
        self._children[ours.fileno()] = child
        self._epoll.register(ours.fileno(), select.EPOLLIN)
        self._forking[zygote, zygote.fork(theirs)] = child
        self._watch(zygote)
        return child

    def end(self, child: ChildProcess, error: EnvError | RunnerError) -> None:
        """Kill the child; `error` answers all its present and later calls."""
        if child.error is not None:
            return
        child.error = error
        self._silence(child)
        child.release()
        calls, child.calls = child.calls, deque()
        self._in_flight -= len(calls)
        for call in calls:
            self._answer(call, error)

    def submit(self, calls: Iterable[Call]) -> None:
        self._waiting.extend(calls)
        self._feed()

    def turn(self, seconds: float) -> None:
        """Move everything on that can be moved; wait for something to do for at most `seconds`."""
        for descriptor, events in self._epoll.poll(seconds):
            self._handle(descriptor, events)
        now = time.monotonic()
        if now >= self._check_at:
            self._check_zygotes(now)
            self._check_children(now)
            self._check_memory()
            self._take_turns(now)
            self._check_at = now + TICK
        if self._waiting:
            self._feed()

    def close(self) -> None:
        """Nothing is left of children and zygotes; what was not answered is answered now."""
        closed = RunnerError("the pool is closed")
        for zygote in list(self._zygotes.values()):
            self.drop_zygote(zygote, closed)
        self._feed()
        self._epoll.close()

    @staticmethod
    def _answer(call: Call, answer: protocol.Answer | EnvError | RunnerError) -> None:
        call.answer = answer
        call.answered(call)

    def _watch(self, zygote: ZygoteClient) -> None:
        events = select.EPOLLIN | (select.EPOLLOUT if zygote.blocked else 0)
        self._epoll.modify(zygote.fileno(), events)

    def _silence(self, child: ChildProcess) -> None:
        """Listen to this child no more."""
        descriptor = child.connection.fileno()
        if self._children.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def _forked(self, key: tuple[ZygoteClient, int], number: int, pidfd: int) -> None:
        child = self._forking.pop(key)
        child.forked(number, pidfd)
        if child.error is not None:  # ended before it was there
            child.release()
        elif child.hung_up:
            self._ask_how_it_died(child)

    def _ended(self, key: tuple[ZygoteClient, int], status: int) -> None:
        child = self._dying.pop(key)
        loading = bool(child.calls) and isinstance(child.calls[0].request, protocol.Open)
        self.end(child, _cause_of_death(status, loading))

    def _ask_how_it_died(self, child: ChildProcess) -> None:
        self._dying[child.zygote, child.zygote.ask(child.number)] = child
        self._watch(child.zygote)

    def _feed(self) -> None:
        touched = {}
        now = time.monotonic()
        while self._waiting and self._in_flight < self._limits.max_in_flight:
            call = self._waiting.popleft()
            child = call.child
            if child.error is not None:
                self._answer(call, child.error)
                continue
            child.calls.append(call)
            self._in_flight += 1
            if len(child.calls) == 1:
                self._begin(child, now)
            if not child.hung_up:
                child.outbox = child.outbox + call.frame if child.outbox else call.frame
                touched[child] = None
        for child in touched:
            self._flush(child)

    def _begin(self, child: ChildProcess, now: float) -> None:
        """The clocks of the call at the head of the child's queue start. CPU time counts from the
        last answer: what a program computes without being asked is charged to the next call."""
        child.wall_base = now
        child.sleep.begin()
        self._served.add(child)
        self._quick.add(child)

    def _flush(self, child: ChildProcess) -> None:
        if child.hung_up or child.error is not None:
            return
        try:
            sent = child.connection.send(child.outbox)
            child.outbox = child.outbox[sent:]
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
        child = self._children.get(descriptor)
        if child is None:
            zygote = self._zygotes.get(descriptor)
            if zygote is not None:
                self._handle_zygote(zygote)
            return
        if events & select.EPOLLOUT:
            self._flush(child)
        if events & ~select.EPOLLOUT:
            self._receive(child)

    def _handle_zygote(self, zygote: ZygoteClient) -> None:
        try:
            zygote.handle()
            self._watch(zygote)
        except RunnerError as error:
            self.drop_zygote(zygote, error)

    def _receive(self, child: ChildProcess) -> None:
        try:
            size = child.connection.recv_into(self._arrived)
        except BlockingIOError:
            return
        except ConnectionResetError:
            size = 0
        if not size:
            self._hang_up(child)
            return
        try:
            child.inbox.add(self._arrived[:size])
            while child.calls:
                call = child.calls[0]
                body = child.inbox.take(largest_answer(call.request, self._limits))
                if body is None:
                    return
                answer = protocol.decode_answer(body, type(call.request))
                answer = check_answer(call.request, answer, self._limits)
                child.calls.popleft()
                self._in_flight -= 1
                child.cpu_base = child.cpu() or 0.0
                if self._slow.pop(child, None) is not None:
                    child.resume()
                if child.calls:
                    self._begin(child, time.monotonic())
                self._answer(call, answer)
            if child.inbox:
                raise protocol.ProtocolError("an answer without a request")
        except protocol.ProtocolError as error:
            self.end(child, EnvError("robustness", f"the process spoke out of turn: {error}"))

    def _hang_up(self, child: ChildProcess) -> None:
        """The child closed its end: find out how it died, which also ends it if it lives on."""
        child.hung_up = True
        self._silence(child)
        if child.number is not None:
            self._ask_how_it_died(child)

    def _check_zygotes(self, now: float) -> None:
        for zygote in list(self._zygotes.values()):
            try:
                zygote.check(now)
            except RunnerError as error:
                self.drop_zygote(zygote, error)

    def _check_children(self, now: float) -> None:
        for child in list(self._children.values()):
            error = self._overdue(child, now) if child.calls else self._restless(child)
            if error is not None:
                self.end(child, error)

    @staticmethod
    def _restless(child: ChildProcess) -> EnvError | None:
        cpu = child.cpu()
        if cpu is None or cpu - child.cpu_base <= _GRACE_CPU:
            return None
        return EnvError("limits", "went on computing after it had answered")

    def _overdue(self, child: ChildProcess, now: float) -> EnvError | RunnerError | None:
        limits, call = self._limits, child.calls[0]
        cpu = child.cpu()
        if child.pid is None:
            return None  # not forked yet, for which the zygote has a deadline of its own, or gone
        if cpu is not None and cpu - child.cpu_base > call.cpu + _GRACE_CPU:
            return EnvError("limits", f"used more than {call.cpu:g} s of CPU time")
        if child.paused_at is not None or now - child.wall_base < _SHORT_WALL:
            return None
        if cpu is not None and cpu - child.cpu_base > _SHORT_CPU:
            self._slow[child] = cpu - child.cpu_base
        if child.sleep.look(child.pid, now) > limits.sleep_wall:
            return EnvError("limits", f"slept for {limits.sleep_wall:g} s instead of answering")
        if now - child.wall_base > limits.call_wall:
            return EnvError("limits", f"gave no answer within {limits.call_wall:g} s")
        return None

    def _take_turns(self, now: float) -> None:
        """Slow calls, and hanging ones, run on no more processors than there are, those first that
        have computed least; while there are quick calls too, on half of them and for one tick of
        four. So nobody who is quick has to wait for them."""
        slow = sorted((c for c in self._slow if c.error is None and c.calls), key=self._slow.get)
        self._slow = {child: self._slow[child] for child in slow}
        if self._quick - self._slow.keys():
            self._quick_until = now + 2 * TICK
        self._quick = {child for child in self._quick if child.calls}
        self._ticks += 1
        places = self._processors
        if now < self._quick_until and len(slow) > places:
            places = 0 if self._ticks % 4 else max(1, places // 2)
        for child in slow[:places]:
            child.resume()
        for child in slow[places:]:
            child.pause()

    def _check_memory(self) -> None:
        """Ends the largest children while all of them together take too much. One that was not
        given a call since the last look waits for one, and takes no more than it had."""
        for child in self._served:
            if child.error is None and child.pid is not None:
                child.memory.look(child.pid)
        self._served = {child for child in self._served if child.calls}
        if sum(child.memory.most for child in self._children.values()) <= self._total_bytes:
            return
        children = [child for child in self._children.values() if child.pid is not None]
        sizes = {child: child.memory.read(child.pid) for child in children}
        total = sum(sizes.values())
        for child in sorted(sizes, key=sizes.get, reverse=True):
            if total <= self._total_bytes:
                return
            total -= sizes[child]
            detail = (
                f"took {sizes[child] >> 20} MiB when all programs together had more than the "
                f"{self._total_bytes >> 20} MiB that they may take"
            )
            self.end(child, EnvError("limits", detail))


def _half_of_the_machine() -> int:
    """Bytes: half of the memory that this process may use."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            return min(machine, int(file.read())) // 2
    except (OSError, ValueError):  # no such group, or one without a limit
        return machine // 2


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
