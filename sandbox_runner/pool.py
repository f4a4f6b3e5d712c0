"""The two faces of the runner: `Pool` for asyncio, `BlockingPool` for everybody else.

Both run environment programs in child processes of exec'ed zygotes, never in the calling process.
Every batched method keeps all children of its batch busy at once and returns one result per item,
in order; an environment's fault is an EnvError value among the results. When the fault is the
runner's or the caller's, RunnerError is raised; BatchError, one of its kind, holds the results of
all other items. A pool belongs to one thread and is a context manager.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from sandbox_runner import confine, protocol
from sandbox_runner.sessions import Batch, Sessions, T
from sandbox_runner.types import EnvError, Limits, Observation, Session, StepResult
from sandbox_runner.watch import TICK


class Pool:
    """For `async with`. Batches of several tasks run side by side, unless they share a session.

    A task that is cancelled while it waits leaves its batch to end by itself.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()

    async def __aenter__(self) -> Pool:
        """Raises RunnerError when the host cannot contain programs."""
        self._sessions = Sessions(self.limits)
        self._loop = asyncio.get_running_loop()
        self._descriptor = self._sessions.exchange.fileno()
        self._loop.add_reader(self._descriptor, self._turn)
        self._timer = self._loop.call_later(TICK, self._tick)
        try:
            await self.layers()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._descriptor)
        self._sessions.close_all()

    async def layers(self) -> confine.Report:
        """The layers of confinement, each with "" or with why this host lacks it."""
        while (report := self._sessions.layers()) is None:
            await asyncio.sleep(TICK / 10)
        return report

    def lost(self, session: Session) -> bool:
        """Whether the session's process has ended: every further call answers with its error."""
        return self._sessions.lost(session)

    def keeper_pids(self) -> list[int]:
        """The processes that this pool has started, whose children are the zygotes and whose
        grandchildren run programs; for tools that watch from outside."""
        return self._sessions.keeper_pids()

    async def open(
        self,
        sources: Sequence[str],
        shareable: Sequence[bool] | None = None,
        max_turns: int = 12,
    ) -> list[Session | EnvError]:
        """One instance per source. Sessions of one shareable source live in one child. When the
        task is cancelled meanwhile, they are closed."""
        batch = self._sessions.open(sources, shareable, max_turns)
        try:
            return await self._answer(batch)
        except asyncio.CancelledError:
            self._sessions.abandon(batch)
            raise

    async def reset(
        self, items: Sequence[tuple[Session, int | None]]
    ) -> list[Observation | EnvError]:
        """Start an episode in each session."""
        return await self._answer(self._sessions.reset(items))

    async def step(self, items: Sequence[tuple[Session, str]]) -> list[StepResult | EnvError]:
        """One action in each session: see `BlockingPool.step`."""
        return await self._answer(self._sessions.step(items))

    async def solution(self, sessions: Sequence[Session]) -> list[str | None | EnvError]:
        """The reference solution of the present episode; None when the program gives none."""
        return await self._answer(self._sessions.solution(sessions))

    async def close(self, sessions: Sequence[Session]) -> None:
        """Forget the sessions; a child without sessions is ended. Closing twice is harmless."""
        await self._answer(self._sessions.close(sessions))

    async def _answer(self, batch: Batch[T]) -> T:
        if not batch.done:
            done = self._loop.create_future()
            batch.notify = lambda: done.done() or done.set_result(None)
            await done
        return batch.result()

    def _turn(self) -> None:
        self._sessions.exchange.turn(0)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK, self._tick)
        self._turn()


class BlockingPool:
    """The same for code without an event loop. The deadlines are looked at while a method waits.

    Who has other things to do sends calls with `begin_reset` and `begin_step`, and comes back to
    `wait` for those that are answered, at least every few hundred milliseconds: `wait` looks at the
    deadlines, also when it is told to wait for no time.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._sessions = Sessions(self.limits)

    def __enter__(self) -> BlockingPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut_down()

    def shut_down(self) -> None:
        """End every child and zygote. The pool cannot be used afterwards."""
        self._sessions.close_all()

    def layers(self) -> confine.Report:
        """The layers of confinement, each with "" or with why this host lacks it. Waits until the
        first zygote is ready; raises RunnerError when the host cannot contain programs."""
        while (report := self._sessions.layers()) is None:
            self._sessions.exchange.turn(TICK)
        return report

    def lost(self, session: Session) -> bool:
        """Whether the session's process has ended: every further call answers with its error."""
        return self._sessions.lost(session)

    def keeper_pids(self) -> list[int]:
        """The processes that this pool has started, whose children are the zygotes and whose
        grandchildren run programs; for tools that watch from outside."""
        return self._sessions.keeper_pids()

    def start(self, hash_seed: int) -> None:
        """See that the zygote of hash seed number 0 or 1 runs or is about to."""
        self._sessions.zygote(hash_seed)

    def open(
        self,
        sources: Sequence[str],
        shareable: Sequence[bool] | None = None,
        max_turns: int = 12,
    ) -> list[Session | EnvError]:
        """One instance per source. Sessions of one shareable source live in one child."""
        return self._answer(lambda: self._sessions.open(sources, shareable, max_turns))

    def open_fresh(
        self, sources: Sequence[str], max_turns: int, hash_seed: int
    ) -> list[Session | EnvError]:
        """Each in a child of its own, under hash seed number 0 or 1; validation uses this."""
        return self._answer(lambda: self._sessions.open_fresh(sources, max_turns, hash_seed))

    def open_beside(self, sessions: Sequence[Session]) -> list[Session | EnvError]:
        """Another instance in the child of each session, all with the first one's `max_turns`."""
        return self._answer(lambda: self._sessions.open_beside(sessions))

    def reset(
        self, items: Sequence[tuple[Session, int | None]]
    ) -> list[Observation | EnvError]:
        """Start an episode in each session."""
        return self._answer(lambda: self._sessions.reset(items))

    def step(self, items: Sequence[tuple[Session, str]]) -> list[StepResult | EnvError]:
        """One action in each session, which must have been reset and not have ended since.

        `truncated` is set when the session's turn budget is used up. A session whose step failed
        answers with the same error until it is reset.
        """
        return self._answer(lambda: self._sessions.step(items))

    def solution(self, sessions: Sequence[Session]) -> list[str | None | EnvError]:
        """The reference solution of the present episode; None when the program gives none."""
        return self._answer(lambda: self._sessions.solution(sessions))

    def play(
        self, scripts: Sequence[tuple[list[protocol.Episode], bool]]
    ) -> list[protocol.Played | EnvError]:
        """Scripted (episodes, interleaved) of one child each; validation uses this.

        Flags are reported as the environment gave them, without the turn budget.
        """
        return self._answer(lambda: self._sessions.play(scripts))

    def close(self, sessions: Sequence[Session]) -> None:
        """Forget the sessions; a child without sessions is ended. Closing twice is harmless."""
        self._answer(lambda: self._sessions.close(sessions))

    def begin_reset(
        self, session: Session, seed: int | None
    ) -> Batch[list[Observation | EnvError]]:
        """Send the reset of one session and return at once."""
        with _interrupts_held():
            return self._sessions.reset([(session, seed)])

    def begin_step(self, session: Session, action: str) -> Batch[list[StepResult | EnvError]]:
        """Send one action to a session and return at once: see `step`."""
        with _interrupts_held():
            return self._sessions.step([(session, action)])

    def wait(self, batches: Collection[Batch], timeout: float | None = None) -> list[Batch]:
        """Those that are done, as soon as one is or `timeout` seconds are over. None: as long as
        that takes, which the deadlines bound. Their results are to be had from `Batch.result`."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            over = not batches or left <= 0.0 or any(batch.done for batch in batches)
            with _interrupts_held():
                self._sessions.exchange.turn(0.0 if over else min(TICK, left))
            if over:
                return [batch for batch in batches if batch.done]

    def _answer(self, ask: Callable[[], Batch[T]]) -> T:
        """An interrupt comes between two turns, never in the middle of one."""
        batch: Batch[T] | None = None
        while batch is None or not batch.done:
            with _interrupts_held() as held:
                batch = batch or ask()
                while not batch.done and not held:
                    self._sessions.exchange.turn(TICK)
        return batch.result()


@contextlib.contextmanager
def _interrupts_held() -> Iterator[list]:
    """What Ctrl-C does inside is done at the end; the list is not empty when something waits.

    Only the main thread is ever interrupted.
    """
    held: list = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield held
        return
    signal.signal(signal.SIGINT, lambda *details: held.append(details))
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            before(*held[0])
