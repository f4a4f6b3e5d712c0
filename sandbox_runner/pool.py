"""The pool: sessions of untrusted environments behind a synchronous, batched face."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from sandbox_runner import confine, protocol
from sandbox_runner.exchange import Call, Child, Exchange
from sandbox_runner.types import (
    EnvError,
    Limits,
    Observation,
    RunnerError,
    Session,
    StepResult,
)

HASH_SEEDS = (0, 1)
MAX_SOURCE = 1 << 20  # bytes
_CLOSED = RunnerError("the session is closed")
T = TypeVar("T")


def _unsendable(source: str) -> EnvError | None:
    """Why no child can be given this source, or None."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        return EnvError("parse", "the source holds a lone surrogate, which no encoding can carry")
    if size > MAX_SOURCE:
        return EnvError("parse", f"the source has {size} bytes, at most {MAX_SOURCE} are allowed")
    return None


@dataclass
class _Live:
    """What the pool knows of a session. `ended` also holds before the first reset."""

    child: Child
    max_turns: int
    turns: int = 0
    ended: bool = True
    error: EnvError | None = None


class Pool:
    """Runs environment programs in child processes of exec'ed zygotes, never in this process.

    Every batched method keeps all children of its batch busy at once and returns one result per
    item, in order; an environment's fault is an EnvError value among the results. RunnerError is
    raised, after all other results were taken in, when the fault is the runner's or the caller's.
    Use it from one thread, as a context manager.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._exchange = Exchange(self.limits)
        self._zygotes = {0: self._exchange.start_zygote(HASH_SEEDS[0])}  # the other when needed
        self._live: dict[int, _Live] = {}
        self._shared: dict[tuple[str, int], Child] = {}
        self._ids = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut_down()

    def layers(self) -> confine.Report:
        """The layers of confinement, each with "" or with why this host lacks it. Waits until the
        first zygote is ready; raises RunnerError when the host cannot contain programs."""
        self.start(0)
        self._zygotes[0].wait_ready()
        return dict(self._zygotes[0].report)

    def lost(self, session: Session) -> bool:
        """Whether the session's process has ended: every further call answers with its error."""
        return self._get(session).child.error is not None

    def zygote_pids(self) -> list[int]:
        """For tools that watch the pool from outside."""
        return [zygote.pid for zygote in self._zygotes.values()]

    def start(self, hash_seed: int) -> None:
        """See that this zygote runs or is about to; it takes about a second of CPU time."""
        zygote = self._zygotes.get(hash_seed)
        if zygote is not None and zygote.alive():
            return
        if zygote is not None:
            self._exchange.drop_zygote(zygote)
        self._zygotes[hash_seed] = self._exchange.start_zygote(HASH_SEEDS[hash_seed])

    def shut_down(self) -> None:
        """End every child and zygote. The pool cannot be used afterwards."""
        self._exchange.close()
        self._live.clear()
        self._shared.clear()

    def open(
        self,
        sources: Sequence[str],
        shareable: Sequence[bool] | None = None,
        max_turns: int = 12,
    ) -> list[Session | EnvError]:
        """One instance per source. Sessions of one shareable source live in one child."""
        flags = [False] * len(sources) if shareable is None else shareable

        def child_for(index: int) -> Child:
            key = sources[index], max_turns
            child = self._shared.get(key) if flags[index] else None
            if child is None or child.error is not None:
                child = self._start_child(0)
                if flags[index]:
                    self._shared[key] = child
            return child

        return self._open_each(sources, child_for, max_turns)

    def open_fresh(
        self, sources: Sequence[str], max_turns: int, hash_seed: int
    ) -> list[Session | EnvError]:
        """Each in a child of its own, under hash seed number 0 or 1; validation uses this."""
        return self._open_each(sources, lambda _: self._start_child(hash_seed), max_turns)

    def open_beside(self, sessions: Sequence[Session]) -> list[Session | EnvError]:
        """Another instance in the child of each session, all with the first one's `max_turns`."""
        if not sessions:
            return []
        lives = [self._get(session) for session in sessions]
        children = [live.child for live in lives]
        return self._open_all(children, [""] * len(lives), lives[0].max_turns)

    def reset(
        self, items: Sequence[tuple[Session, int | None]]
    ) -> list[Observation | EnvError]:
        """Start an episode in each session."""

        def take(live: _Live, answer: protocol.Text) -> Observation:
            live.turns, live.ended = 0, False
            return Observation(answer.text)

        for session, _ in items:
            self._get(session).error = None
        return self._batch(
            [session for session, _ in items],
            [protocol.Reset(self._next(), session.id, seed) for session, seed in items],
            take,
        )

    def step(self, items: Sequence[tuple[Session, str]]) -> list[StepResult | EnvError]:
        """One action in each session, which must have been reset and not have ended since.

        `truncated` is set when the session's turn budget is used up. A session whose step failed
        answers with the same error until it is reset.
        """

        def take(live: _Live, answer: protocol.Stepped) -> StepResult:
            live.turns += 1
            truncated = answer.truncated or (
                live.turns >= live.max_turns and not answer.terminated
            )
            live.ended = answer.terminated or truncated
            return StepResult(answer.observation, answer.reward, answer.terminated, truncated)

        for session, _ in items:
            live = self._get(session)
            if live.ended and live.error is None and live.child.error is None:
                raise RunnerError(f"session {session.id} must be reset before it can step")
        return self._batch(
            [session for session, _ in items],
            [protocol.Step(self._next(), session.id, action) for session, action in items],
            take,
        )

    def solution(self, sessions: Sequence[Session]) -> list[str | None | EnvError]:
        """The reference solution of the present episode; None when the program gives none."""
        requests = [protocol.Solution(self._next(), session.id) for session in sessions]
        return self._batch(sessions, requests, lambda live, answer: answer.text)

    def play(
        self, scripts: Sequence[tuple[list[protocol.Episode], bool]]
    ) -> list[protocol.Played | EnvError]:
        """Scripted (episodes, interleaved) of one child each; validation uses this.

        Flags are reported as the environment gave them, without the turn budget.
        """
        calls = []
        for episodes, interleaved in scripts:
            child = self._live[episodes[0].session].child
            request = protocol.Play(self._next(), episodes, interleaved)
            calls.append(Call(child, request, self.limits.play_cpu))
        self._exchange.run(calls)
        self._raise_runner_error(calls)
        return [call.answer for call in calls]

    def close(self, sessions: Sequence[Session]) -> None:
        """Forget the sessions; a child without sessions is ended. Closing twice is harmless."""
        calls = []
        for session in sessions:
            live = self._live.pop(session.id, None)
            if live is None:
                continue
            live.child.sessions.discard(session.id)
            if live.child.sessions:
                request = protocol.Close(self._next(), session.id)
                calls.append(Call(live.child, request, self.limits.call_cpu))
            else:
                self._exchange.end(live.child, _CLOSED)
        self._exchange.run(call for call in calls if call.child.error is None)
        self._forget_lost_children()

    def _open_each(
        self, sources: Sequence[str], child_for: Callable[[int], Child], max_turns: int
    ) -> list[Session | EnvError]:
        """An instance of each source that can be sent, in the child for its index."""
        results: list[Session | EnvError | None] = [_unsendable(source) for source in sources]
        good = [index for index, error in enumerate(results) if error is None]
        children: list[Child] = []
        with self._ending_unused(children):
            for index in good:
                children.append(child_for(index))
        opened = self._open_all(children, [sources[index] for index in good], max_turns)
        for index, result in zip(good, opened, strict=True):
            results[index] = result
        return results

    @contextmanager
    def _ending_unused(self, children: list[Child]) -> Iterator[None]:
        """When not all children of a batch can be had, end those that nobody uses."""
        try:
            yield
        except RunnerError:
            for child in children:
                if not child.sessions:
                    self._exchange.end(child, _CLOSED)
            self._forget_lost_children()
            raise

    def _open_all(
        self, children: Sequence[Child], sources: Sequence[str], max_turns: int
    ) -> list[Session | EnvError]:
        calls = [
            self._open_call(child, source, max_turns)
            for child, source in zip(children, sources, strict=True)
        ]
        self._exchange.run(calls)
        results: list[Session | EnvError] = []
        for call in calls:
            id = call.request.session
            if isinstance(call.answer, protocol.Done):
                self._live[id] = _Live(call.child, max_turns)
                results.append(Session(id))
                continue
            call.child.sessions.discard(id)
            results.append(call.answer)
            if not call.child.sessions:
                self._exchange.end(call.child, _CLOSED)
        self._forget_lost_children()
        self._raise_runner_error(calls)
        return results

    def _batch(
        self,
        sessions: Sequence[Session],
        requests: Sequence[protocol.Request],
        take: Callable[[_Live, protocol.Answer], T],
    ) -> list[T | EnvError]:
        if len({session.id for session in sessions}) != len(sessions):
            raise RunnerError("a session appears twice in one batch")
        lives = [self._get(session) for session in sessions]
        calls = [
            Call(live.child, request, self.limits.call_cpu)
            for live, request in zip(lives, requests, strict=True)
        ]
        self._exchange.run(c for c, live in zip(calls, lives, strict=True) if live.error is None)
        results: list[T | EnvError] = []
        for live, call in zip(lives, calls, strict=True):
            answer = live.error or call.answer
            if isinstance(answer, EnvError):
                live.error, live.ended = answer, True
                results.append(answer)
            elif not isinstance(answer, RunnerError):
                results.append(take(live, answer))
        self._raise_runner_error(calls)
        return results

    def _open_call(self, child: Child, source: str, max_turns: int) -> Call:
        id = self._next()
        call = Call(
            child, protocol.Open(id, id, source, max_turns), self.limits.load_cpu
        )
        child.sessions.add(id)
        return call

    def _start_child(self, index: int) -> Child:
        """A new child under hash seed number `index`."""
        self.start(index)
        return self._exchange.start_child(self._zygotes[index])

    def _forget_lost_children(self) -> None:
        for key in [key for key, child in self._shared.items() if child.error is not None]:
            del self._shared[key]

    def _get(self, session: Session) -> _Live:
        live = self._live.get(session.id)
        if live is None:
            raise RunnerError(f"session {session.id} is not open in this pool")
        return live

    def _next(self) -> int:
        self._ids += 1
        return self._ids

    @staticmethod
    def _raise_runner_error(calls: Sequence[Call]) -> None:
        for call in calls:
            if isinstance(call.answer, RunnerError):
                raise call.answer
