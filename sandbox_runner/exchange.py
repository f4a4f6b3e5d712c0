"""Many children at once: send requests, collect answers, end the child that breaks a rule."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Iterable

from sandbox_runner import protocol
from sandbox_runner.checks import check_answer, largest_answer
from sandbox_runner.child_process import Call, ChildProcess, cause_of_death
from sandbox_runner.types import EnvError, Limits, RunnerError
from sandbox_runner.watch import TICK, Watch
from sandbox_runner.zygote_client import ZygoteClient

_NO_DESCRIPTORS = "no descriptors are left for children (raise the limit on open files)"


class Exchange:
    """Owns the children's sockets and never waits, except in `turn` for as long as it is told.

    `submit` takes calls, `turn` moves them on; each call says when it is answered. All failures are
    answers. Not for use by several threads.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._watch = Watch(limits)
        self._epoll = select.epoll()
        self._arrived = memoryview(bytearray(1 << 18))
        self._children: dict[int, ChildProcess] = {}  # by file descriptor of the socket
        self._zygotes: dict[int, ZygoteClient] = {}
        self._forking: dict[tuple[ZygoteClient, int], ChildProcess] = {}
        self._dying: dict[tuple[ZygoteClient, int], ChildProcess] = {}
        self._waiting: deque[Call] = deque()
        self._in_flight = 0
        self._check_at = 0.0  # next look at the deadlines

    def __len__(self) -> int:
        return len(self._children)

    def fileno(self) -> int:
        """A descriptor that is readable when `turn` has something to do."""
        return self._epoll.fileno()

    def start_zygote(self, hash_seed: int) -> ZygoteClient:
        if self._epoll.closed:
            raise RunnerError("the pool is closed")
        try:
            zygote = ZygoteClient(
                self._limits,
                hash_seed,
                lambda request, number, pidfd: self._forked((zygote, request), number, pidfd),
                lambda request, status: self._ended((zygote, request), status),
            )
        except OSError as error:
            raise RunnerError(f"no zygote can be started: {error}") from error
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
            raise RunnerError(f"{_NO_DESCRIPTORS}: {error}") from error
        ours.setblocking(False)
        child = ChildProcess(zygote, ours)
        self._children[ours.fileno()] = child
        self._epoll.register(ours.fileno(), select.EPOLLIN)
        self._forking[zygote, zygote.fork(theirs)] = child
        self._listen(zygote)
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
            for child, error in self._watch.tick(list(self._children.values()), now):
                self.end(child, error)
            self._check_at = now + TICK
        if self._waiting:
            self._feed()

    def close(self) -> None:
        """Nothing is left of children and zygotes; what was not answered is answered now."""
        if self._epoll.closed:
            return
        closed = RunnerError("the pool is closed")
        for zygote in list(self._zygotes.values()):
            self.drop_zygote(zygote, closed)
        self._feed()
        self._epoll.close()

    @staticmethod
    def _answer(call: Call, answer: protocol.Answer | EnvError | RunnerError) -> None:
        call.answer = answer
        call.answered(call)

    def _listen(self, zygote: ZygoteClient) -> None:
        events = select.EPOLLIN | (select.EPOLLOUT if zygote.blocked else 0)
        self._epoll.modify(zygote.fileno(), events)

    def _silence(self, child: ChildProcess) -> None:
        """Listen to this child no more."""
        descriptor = child.connection.fileno()
        if self._children.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def _forked(self, key: tuple[ZygoteClient, int], number: int, pidfd: int | None) -> None:
        child = self._forking.pop(key)
        if number < 0:
            self.end(child, RunnerError("the zygote could not fork: see its log"))
            return
        try:
            if pidfd is None:
                raise OSError("the one of a child could not be received")
            child.forked(number, pidfd)
        except OSError as error:
            child.number = number
            self._ask_how_it_died(child)  # which kills it
            self.end(child, RunnerError(f"{_NO_DESCRIPTORS}: {error}"))
            return
        if child.error is not None:  # ended before it was there
            child.release()
        elif child.hung_up:
            self._ask_how_it_died(child)

    def _ended(self, key: tuple[ZygoteClient, int], status: int) -> None:
        child = self._dying.pop(key)
        loading = bool(child.calls) and isinstance(child.calls[0].request, protocol.Open)
        self.end(child, cause_of_death(status, loading))

    def _ask_how_it_died(self, child: ChildProcess) -> None:
        self._dying[child.zygote, child.zygote.ask(child.number)] = child
        self._listen(child.zygote)

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
        child.wall_base = now
        child.sleep.begin()
        self._watch.called(child)

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
            self._listen(zygote)
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
                if error := self._watch.answered(child):
                    self.end(child, error)
                    return
                child.calls.popleft()
                self._in_flight -= 1
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
