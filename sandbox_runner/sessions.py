"""Sessions of untrusted environments: what a pool knows of them, and batches of calls to them.

Nothing here waits. Every operation sends its calls and returns a `Batch`; the faces in `pool.py`
differ only in how they wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sandbox_runner import confine, protocol
from sandbox_runner.child_process import Call, ChildProcess, UnsendableError
from sandbox_runner.exchange import Exchange
from sandbox_runner.tool_schemas import read_tools
from sandbox_runner.types import (
    BatchError,
    EnvError,
    Limits,
    Observation,
    RunnerError,
    Session,
    StepResult,
)
from sandbox_runner.zygote_client import ZygoteClient

HASH_SEEDS = (0, 1)
MAX_SOURCE = 1 << 20  # bytes
_MOST = 1 << 63
_CLOSED = RunnerError("the session is closed")
T = TypeVar("T")


class Batch(Generic[T]):
    """Calls that were sent together. The result is made the moment the last of them is answered,
    whether or not somebody still waits for it; `notify` is called then."""

    def __init__(self, calls: Sequence[Call], finish: Callable[[], T]) -> None:
        self._finish = finish
        self._left = len(calls)
        self._result: T | None = None
        self._error: Exception | None = None
        self.done = False
        self.notify: Callable[[], None] | None = None
        for call in calls:
            call.answered = self._answered
        if not calls:
            self._complete()

    def result(self) -> T:
        """Only when `done`. Raises RunnerError."""
        if self._error is not None:
            raise self._error
        return self._result

    def opened(self) -> T:
        """The result, also where the runner failed in some items."""
        return self._error.results if isinstance(self._error, BatchError) else self._result or []

    def _answered(self, call: Call) -> None:
        self._left -= 1
        if self._left == 0:
            self._complete()

    def _complete(self) -> None:
        try:
            self._result = self._finish()
        except Exception as error:  # whatever it is, the one who waits must hear of it
            self._error = error
        self.done = True
        if self.notify is not None:
            self.notify()


@dataclass(slots=True)
class _Live:
    """What is known of a session. `ended` also holds before the first reset; `busy` while a call
    of it is on its way."""

    child: ChildProcess
    max_turns: int
    turns: int = 0
    ended: bool = True
    busy: bool = False
    error: EnvError | None = None


class Sessions:
    """The sessions of one pool, its zygotes and their children."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.exchange = Exchange(limits)
        self._zygotes: dict[int, ZygoteClient] = {}
        self._live: dict[int, _Live] = {}
        self._shared: dict[tuple[str, int], ChildProcess] = {}
        self._ids = 0
        self.zygote(0)  # the other when needed

    def zygote(self, hash_seed: int) -> ZygoteClient:
        """One that runs or is about to; starting takes about a second of CPU time."""
        zygote = self._zygotes.get(hash_seed)
        if zygote is None or not zygote.alive():
            if zygote is not None:
                self.exchange.drop_zygote(zygote)
            zygote = self.exchange.start_zygote(HASH_SEEDS[hash_seed])
            self._zygotes[hash_seed] = zygote
        return zygote

    def layers(self) -> confine.Report | None:
        """The layers that hold, None while the first zygote is not ready. Raises RunnerError when
        it has failed."""
        zygote = self._zygotes[0]
        if zygote.failure is not None:
            raise zygote.failure
        return dict(zygote.report) if zygote.ready else None

    def keeper_pids(self) -> list[int]:
        return [zygote.keeper_pid for zygote in self._zygotes.values()]

    def close_all(self) -> None:
        self.exchange.close()
        self._live.clear()
        self._shared.clear()

    def lost(self, session: Session) -> bool:
        return self._get(session).child.error is not None

    def open(
        self, sources: Sequence[str], shareable: Sequence[bool] | None, max_turns: int
    ) -> Batch[list[Session | EnvError]]:
        """One instance per source. Sessions of one shareable source live in one child."""
        flags = [False] * len(sources) if shareable is None else shareable
        if len(flags) != len(sources):
            raise RunnerError(f"{len(sources)} sources, but {len(flags)} flags in shareable")

        def child_for(index: int) -> ChildProcess:
            key = sources[index], max_turns
            child = self._shared.get(key) if flags[index] else None
            if child is None or child.error is not None:
                child = self.exchange.start_child(self.zygote(0))
                if flags[index]:
                    self._shared[key] = child
            return child

        return self._open_each(sources, child_for, max_turns)

    def open_fresh(
        self, sources: Sequence[str], max_turns: int, hash_seed: int
    ) -> Batch[list[Session | EnvError]]:
        """Each in a child of its own, under hash seed number 0 or 1."""

        def child_for(index: int) -> ChildProcess:
            return self.exchange.start_child(self.zygote(hash_seed))

        return self._open_each(sources, child_for, max_turns)

    def open_beside(self, sessions: Sequence[Session]) -> Batch[list[Session | EnvError]]:
        """Another instance in the child of each session, all with the first one's `max_turns`."""
        lives = [self._get(session) for session in sessions]
        max_turns = lives[0].max_turns if lives else 1
        return self._open_all([live.child for live in lives], [""] * len(lives), max_turns)

    def abandon(self, batch: Batch[list[Session | EnvError]]) -> None:
        """Nobody waits for this `open` any more: close what it opens."""

        def close() -> None:
            opened = batch.opened()
            self.close([session for session in opened if isinstance(session, Session)])

        batch.notify = close
        if batch.done:
            close()

    def reset(
        self, items: Sequence[tuple[Session, int | None]]
    ) -> Batch[list[Observation | EnvError]]:
        def take(live: _Live, answer: protocol.Started) -> Observation:
            live.turns, live.ended = 0, False
            return Observation(answer.text, read_tools(answer.tools) if answer.tools else ())

        sessions = [session for session, _ in items]
        for _, seed in items:
            if seed is not None and not (type(seed) is int and -_MOST <= seed < _MOST):
                raise RunnerError(f"seed {seed!r} is neither None nor an int of 64 bits")
        lives = self._idle(sessions)
        for live in lives:
            live.error = None
        requests = [protocol.Reset(self._next(), session.id, seed) for session, seed in items]
        return self._ask(lives, requests, take)

    def step(self, items: Sequence[tuple[Session, str]]) -> Batch[list[StepResult | EnvError]]:
        def take(live: _Live, answer: protocol.Stepped) -> StepResult:
            live.turns += 1
            truncated = answer.truncated or (
                live.turns >= live.max_turns and not answer.terminated
            )
            live.ended = answer.terminated or truncated
            return StepResult(
                answer.observation, answer.reward, answer.terminated, truncated,
                answer.tool_results, answer.malformed,
            )  # fmt: skip

        sessions = [session for session, _ in items]
        lives = self._idle(sessions)
        for session, live in zip(sessions, lives, strict=True):
            if live.ended and live.error is None and live.child.error is None:
                raise RunnerError(f"session {session.id} must be reset before it can step")
        for _, action in items:
            if not isinstance(action, str):
                raise RunnerError(f"the action {action!r:.80} is not a str")
        requests = [protocol.Step(self._next(), session.id, action) for session, action in items]
        return self._ask(lives, requests, take)

    def solution(self, sessions: Sequence[Session]) -> Batch[list[str | None | EnvError]]:
        lives = self._idle(sessions)
        requests = [protocol.Solution(self._next(), session.id) for session in sessions]
        return self._ask(lives, requests, lambda live, answer: answer.text)

    def play(
        self, scripts: Sequence[tuple[list[protocol.Episode], bool]]
    ) -> Batch[list[protocol.Played | EnvError]]:
        """Scripted (episodes, interleaved) of one child each.

        Its own texts may be in the actions, so it is the program's fault when they are too long.
        """
        calls = [self._play_call(episodes, interleaved) for episodes, interleaved in scripts]
        sent = [call for call in calls if isinstance(call, Call)]
        return self._send(
            sent, lambda: _checked([c.answer if isinstance(c, Call) else c for c in calls])
        )

    def _play_call(self, episodes: list[protocol.Episode], interleaved: bool) -> Call | EnvError:
        child = self._get(Session(episodes[0].session)).child
        request = protocol.Play(self._next(), episodes, interleaved)
        try:
            return Call(child, request, self.limits.play_cpu)
        except UnsendableError:
            return EnvError("limits", "its names, choices or solution are too long to play with")

    def close(self, sessions: Sequence[Session]) -> Batch[None]:
        """Forget the sessions; a child without sessions is ended."""
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
                self.exchange.end(live.child, _CLOSED)
        return self._send([c for c in calls if c.child.error is None], self._forget_lost_children)

    def _open_each(
        self,
        sources: Sequence[str],
        child_for: Callable[[int], ChildProcess],
        max_turns: int,
    ) -> Batch[list[Session | EnvError]]:
        """An instance of each source that can be sent, in the child for its index."""
        if not (type(max_turns) is int and 1 <= max_turns < _MOST):
            raise RunnerError(f"max_turns={max_turns!r:.80} is not an int of at least 1")
        unsendable = [_unsendable(source) for source in sources]
        good = [index for index, error in enumerate(unsendable) if error is None]
        children: list[ChildProcess] = []
        try:
            for index in good:
                children.append(child_for(index))
        except BaseException:
            for child in children:  # not all could be had: end those that nobody uses
                if not child.sessions:
                    self.exchange.end(child, _CLOSED)
            self._forget_lost_children()
            raise
        return self._open_all(
            children, [sources[index] for index in good], max_turns, dict(enumerate(unsendable))
        )

    def _open_all(
        self,
        children: Sequence[ChildProcess],
        sources: Sequence[str],
        max_turns: int,
        refused: dict[int, EnvError | None] | None = None,
    ) -> Batch[list[Session | EnvError]]:
        """`refused` maps the index of each result to an error, or to None where it is a child's."""
        calls = [
            self._open_call(child, source, max_turns)
            for child, source in zip(children, sources, strict=True)
        ]

        def finish() -> list[Session | EnvError]:
            opened = [self._opened(call, max_turns) for call in calls]
            self._forget_lost_children()
            answers = iter(opened)
            errors = (refused or dict.fromkeys(range(len(calls)))).values()
            return _checked([next(answers) if error is None else error for error in errors])

        return self._send(calls, finish)

    def _opened(self, call: Call, max_turns: int) -> Session | EnvError | RunnerError:
        id = call.request.session
        if isinstance(call.answer, protocol.Done):
            self._live[id] = _Live(call.child, max_turns)
            return Session(id)
        call.child.sessions.discard(id)
        if not call.child.sessions:
            self.exchange.end(call.child, _CLOSED)
        return call.answer

    def _open_call(self, child: ChildProcess, source: str, max_turns: int) -> Call:
        id = self._next()
        child.sessions.add(id)
        return Call(child, protocol.Open(id, id, source, max_turns), self.limits.load_cpu)

    def _ask(
        self,
        lives: Sequence[_Live],
        requests: Sequence[protocol.Request],
        take: Callable[[_Live, protocol.Answer], T],
    ) -> Batch[list[T | EnvError]]:
        calls = [
            Call(live.child, request, self.limits.call_cpu)
            for live, request in zip(lives, requests, strict=True)
        ]
        for live in lives:
            live.busy = True

        def result(live: _Live, call: Call) -> T | EnvError | RunnerError:
            live.busy = False
            answer = live.error or call.answer
            if isinstance(answer, EnvError):
                live.error, live.ended = answer, True
                return answer
            return answer if isinstance(answer, RunnerError) else take(live, answer)

        def finish() -> list[T | EnvError]:
            return _checked([result(*pair) for pair in zip(lives, calls, strict=True)])

        sent = [call for live, call in zip(lives, calls, strict=True) if live.error is None]
        return self._send(sent, finish)

    def _send(self, calls: Sequence[Call], finish: Callable[[], T]) -> Batch[T]:
        batch = Batch(calls, finish)
        self.exchange.submit(calls)
        return batch

    def _idle(self, sessions: Sequence[Session]) -> list[_Live]:
        """What is known of the sessions, none of which may have a call on its way."""
        if len({session.id for session in sessions}) != len(sessions):
            raise RunnerError("a session appears twice in one batch")
        lives = [self._get(session) for session in sessions]
        for session, live in zip(sessions, lives, strict=True):
            if live.busy:
                raise RunnerError(f"session {session.id} has not answered its last call yet")
        return lives

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


def _checked(results: list[T | RunnerError]) -> list[T]:
    """The results. Raises BatchError when the runner has failed in one of them."""
    for result in results:
        if isinstance(result, RunnerError):
            raise BatchError(str(result), results)
    return results


def _unsendable(source: str) -> EnvError | None:
    """Why no child can be given this source, or None. Raises RunnerError for what is no text."""
    if not isinstance(source, str):
        raise RunnerError(f"the source {source!r:.80} is not a str")
    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        return EnvError("parse", "the source holds a lone surrogate, which no encoding can carry")
    if size > MAX_SOURCE:
        return EnvError("parse", f"the source has {size} bytes, at most {MAX_SOURCE} are allowed")
    return None
