"""A program as a Gymnasium environment. Optional: the package itself never imports this."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar, TypeVar

import gymnasium
import numpy as np

from sandbox_runner.pool import BlockingPool
from sandbox_runner.types import EnvError, RunnerError

_SURROGATES = (0xD800, 0xE000)
_CODE_POINTS = 0x110000
_DRAWN_SEEDS = 1 << 31
_SAMPLE_CHARACTERS = 64
T = TypeVar("T")


class UnicodeText(gymnasium.Space[str]):
    """Every text of at most `max_length` characters; lone surrogates are not text.

    No subclass of `gymnasium.spaces.Text`, whose alphabet is finite: what flattens or shares such
    spaces would fail on the first other character. Samples have at most 64 characters, each drawn
    evenly from all of Unicode.
    """

    def __init__(self, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}, at least 1 expected")
        super().__init__(dtype=str, seed=seed)
        self.max_length = max_length

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def contains(self, x: Any) -> bool:
        if not isinstance(x, str) or len(x) > self.max_length:
            return False
        return not any(_SURROGATES[0] <= ord(character) < _SURROGATES[1] for character in x)

    def sample(self, mask: None = None, probability: None = None) -> str:
        """Raises ValueError for a mask or probabilities, which texts do not have."""
        if mask is not None or probability is not None:
            raise ValueError("a text is sampled without mask and without probabilities")
        first, after = _SURROGATES
        length = self.np_random.integers(min(self.max_length, _SAMPLE_CHARACTERS) + 1)
        codes = self.np_random.integers(_CODE_POINTS - (after - first), size=length)
        codes[codes >= first] += after - first
        return "".join(map(chr, codes.tolist()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and other.max_length == self.max_length

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"


class SandboxEnv(gymnasium.Env[str, str]):
    """One program, in a child process of `pool`, or of a BlockingPool of its own that `close` ends.

    Lengths in the spaces are characters. The constructor, `reset` and `step` raise EnvError for
    what the program does wrong and RunnerError for what the caller or the runner does. After a
    fault that ended the child every call raises it again: make a new SandboxEnv.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    render_mode = None

    def __init__(
        self,
        source: str,
        pool: BlockingPool | None = None,
        max_turns: int = 12,
        max_action_length: int = 1 << 16,
    ) -> None:
        self.action_space = UnicodeText(max_action_length)
        self._has_tools = False
        with ExitStack() as closing:
            self._pool = closing.enter_context(BlockingPool()) if pool is None else pool
            (opened,) = self._pool.open([source], max_turns=max_turns)
            self._session = _unless_error(opened)
            closing.callback(self._pool.close, [self._session])
            self._closing = closing.pop_all()
        # A text never has more characters than bytes.
        self.observation_space = UnicodeText(self._pool.limits.observation_bytes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The program gets `seed`, or one that this environment's own generator draws.

        So one seeded reset fixes all later episodes, however the program treats `None`. `info`
        holds the "seed" that was used and, where there are any, the schemas of the "tools".
        `options` has no meaning for a program and is not passed on.
        """
        super().reset(seed=seed)
        used = int(self.np_random.integers(_DRAWN_SEEDS)) if seed is None else int(seed)
        (result,) = self._pool.reset([(self._session, used)])
        started = _unless_error(result)
        self._has_tools = bool(started.tools)
        return started.text, {"seed": used} | ({"tools": started.tools} if started.tools else {})

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """`truncated` is also set at the turn budget. With tools, `info` has "tool_results" and
        "malformed" as in `StepResult`; else it is empty."""
        if action not in self.action_space:
            raise RunnerError(
                f"the action is not a text of at most {self.action_space.max_length} characters"
            )
        (result,) = self._pool.step([(self._session, str(action))])
        taken = _unless_error(result)
        told = {"tool_results": taken.tool_results, "malformed": taken.malformed}
        info = told if self._has_tools else {}
        return taken.observation, taken.reward, taken.terminated, taken.truncated, info

    def render(self) -> None:
        """Nothing: the observations are all there is to see."""

    def close(self) -> None:
        """End the child, and the pool if it is this environment's own. Twice is harmless."""
        self._closing.close()


def _unless_error(result: T | EnvError) -> T:
    if isinstance(result, EnvError):
        raise result
    return result
