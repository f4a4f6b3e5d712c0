"""One loaded program inside its child process: instances, their random state, guarded calls."""

from __future__ import annotations

import random
import signal
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from sandbox_runner import contract, protocol
from sandbox_runner.tool_schemas import check_tools
from sandbox_runner.types import EnvError, Limits

_FILE = "<environment>"


class PrintLimit(BaseException):
    """More was printed than allowed; not an Exception, so that programs rarely catch it."""


class _Printed:
    """Stands in for stdout and stderr: counts, keeps nothing."""

    encoding = "utf-8"
    errors = "replace"
    closed = False

    def __init__(self, limit: int) -> None:
        self.left = limit

    def write(self, text: str) -> int:
        self.left -= len(text)
        if self.left < 0:
            raise PrintLimit
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


class _NoInput:
    """Stands in for stdin: reading is an error, not an endless wait."""

    encoding = "utf-8"
    closed = False

    def readline(self, *_: Any) -> str:
        raise OSError("there is no input to read: an environment talks through step() only")

    read = readlines = __next__ = readline

    def __iter__(self) -> _NoInput:
        return self

    def isatty(self) -> bool:
        return False


class Program:
    """Runs the requests that concern the environment; every method may raise EnvError.

    Global random state (`random`, `numpy.random`) belongs to the session that is being served: it
    is put back when another session's turn comes, so instances cannot see each other through it.
    It is seeded for the constructor and with each episode's seed, so a program that forgets to do
    that is reproducible all the same.
    """

    def __init__(self, limits: Limits, module: types.ModuleType) -> None:
        self._limits = limits
        self._module = module
        self._class: type | None = None
        self._error: EnvError | None = None
        self._instances: dict[int, Any] = {}
        self._states: dict[int, tuple] = {}
        self._served: int | None = None
        self._uses_random = self._uses_numpy = False
        self._printed = _Printed(limits.print_bytes)
        sys.stdout = sys.stderr = self._printed
        sys.stdin = _NoInput()

    def open(self, session: int, source: str, max_turns: int) -> None:
        self._serve(session)
        if self._class is None and self._error is None:
            try:
                self._class = self._load(source)
            except EnvError as error:
                self._error = error
        if self._error is not None:
            raise self._error
        cls = self._class

        def construct() -> Any:
            self._seed(0)
            env = cls(**contract.constructor_arguments(cls, max_turns))
            own = getattr(env, "max_turns", None)
            if isinstance(own, int) and own > max_turns:
                env.max_turns = max_turns
            return env

        self._instances[session] = self._guard("load", "the constructor", construct)

    def reset(self, session: int, seed: int | None) -> tuple[str, str]:
        """The first observation and the JSON of the tools, as in `protocol.Started`."""
        env = self._serve(session)
        if seed is not None:
            self._seed(seed)
        value = self._guard("robustness", "reset", lambda: env.reset(seed=seed))
        text = contract.check_reset(value, self._limits.observation_bytes)
        if getattr(env, "get_tools", None) is None:
            return text, ""
        return text, self._tools(env, text)

    def _tools(self, env: Any, observation: str) -> str:
        value = self._guard("robustness", "get_tools", lambda: env.get_tools())
        tools = self._guard("contract", "reading get_tools", lambda: check_tools(value))
        both = "the observation of reset and the tools"
        contract.check_together((observation, tools), both, self._limits.observation_bytes)
        return tools

    def step(
        self, session: int, action: str
    ) -> tuple[str, float, bool, bool, tuple[str, ...] | None, bool]:
        """The fields of `protocol.Stepped`."""
        env = self._serve(session)
        value = self._guard("robustness", "step", lambda: env.step(action))
        return contract.check_step(value, self._limits.observation_bytes)

    def solution(self, session: int) -> str | None:
        env = self._serve(session)
        if getattr(env, "solution", None) is None:
            return None
        value = self._guard("robustness", "solution", lambda: env.solution())
        return contract.check_solution(value, self._limits.observation_bytes)

    def close(self, session: int) -> None:
        """Drop an instance. What its own `close` does wrong can harm no result any more."""
        env = self._serve(session)
        try:
            if callable(getattr(env, "close", None)):
                self._guard("robustness", "close", lambda: env.close())
        except EnvError:
            pass
        finally:
            del self._instances[session]
            self._states.pop(session, None)
            self._served = None

    def play(self, request: protocol.Play) -> tuple[list[protocol.Transcript], int]:
        """The transcripts of scripted episodes and how many environment calls they took."""
        episodes = request.episodes
        runs = [_Run(self, episode) for episode in episodes]
        if request.interleaved:
            waiting = runs
            while waiting:
                waiting = [run for run in waiting if run.advance()]
        else:
            for run in runs:
                while run.advance():
                    pass
        return [run.transcript() for run in runs], sum(run.calls for run in runs)

    def _load(self, source: str) -> type:
        names = vars(self._module)
        last = next(reversed(names))
        if sys.modules.get(contract.MODULE) is not self._module:
            sys.modules[contract.MODULE] = self._module
        self._uses_random = "random" in source or "shuffle" in source
        self._uses_numpy = "numpy" in source or "np." in source
        code = self._guard("parse", "", lambda: compile(source, _FILE, "exec", dont_inherit=True))
        self._guard("load", "importing", lambda: exec(code, names))
        return self._guard(
            "contract", "the class", lambda: contract.environment_class(names, last)
        )

    def _serve(self, session: int) -> Any:
        """Make `session` the owner of the global random state; its instance."""
        served = self._served
        if session != served:
            if served is not None:
                self._states[served] = (
                    random.getstate() if self._uses_random else None,
                    np.random.get_state() if self._uses_numpy else None,
                )
            plain, arrays = self._states.get(session, (None, None))
            if plain is not None:
                random.setstate(plain)
            if arrays is not None:
                np.random.set_state(arrays)
            self._served = session
        return self._instances.get(session)

    def _seed(self, seed: int) -> None:
        if self._uses_random:
            random.seed(seed)
        if self._uses_numpy:
            np.random.seed(seed % (1 << 32))

    def _guard(self, stage: str, what: str, call: Callable[[], Any]) -> Any:
        """Run untrusted code. Anything it raises becomes an EnvError of `stage` or "limits".

        The profiling timer counts CPU time and ends this process when it runs out, also inside
        a C function that never comes back.
        """
        seconds = self._limits.load_cpu if stage in ("parse", "load") else self._limits.call_cpu
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            result = call()
        except EnvError:
            raise
        except (MemoryError, PrintLimit) as error:
            raise over_budget(what, error, self._limits) from None
        except BaseException as error:
            raise EnvError(stage, _describe(what, error)) from None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if self._printed.left < 0:
            raise over_budget(what, PrintLimit(), self._limits)
        return result


class _Run:
    """A scripted episode in progress."""

    def __init__(self, program: Program, episode: protocol.Episode) -> None:
        self._program = program
        self._episode = episode
        self._first: str | None = None
        self._tools = ""
        self._solution: str | None = None
        self._turns: list[protocol.Turn] = []
        self.calls = 0

    def advance(self) -> bool:
        """Reset or make one step; False once the episode is over."""
        episode = self._episode
        self.calls += 1
        if self._first is None:
            self._first, self._tools = self._program.reset(episode.session, episode.seed)
            if episode.solution:
                self._solution = self._program.solution(episode.session)
            return bool(episode.actions)
        action = episode.actions[len(self._turns)]
        turn = protocol.Turn(*self._program.step(episode.session, action))
        self._turns.append(turn)
        ended = turn.terminated or turn.truncated
        return not ended and len(self._turns) < len(episode.actions)

    def transcript(self) -> protocol.Transcript:
        return protocol.Transcript(self._first or "", self._solution, self._turns, self._tools)


def over_budget(what: str, error: BaseException, limits: Limits) -> EnvError:
    if isinstance(error, MemoryError):
        detail = f"{what or 'compiling'} needs more than {limits.memory_bytes >> 20} MiB of memory"
    else:
        detail = f"more than {limits.print_bytes} characters were printed"
    return EnvError("limits", detail)


def _describe(what: str, error: BaseException) -> str:
    """One line: what raised, where in the program, and why."""
    if isinstance(error, SyntaxError) and not what:
        return f"line {error.lineno}: {error.msg}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == _FILE]
    where = f" at line {lines[-1]}" if lines else ""
    try:
        message = " ".join(str(error).split())[:300]
    except Exception:  # a program's own exception class may be unable to say what it is
        message = "(no message)"
    message = message.encode("utf-8", "replace").decode()
    return f"{what or 'compiling'} raised {type(error).__name__}{where}: {message}"
