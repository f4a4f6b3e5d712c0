"""What the caller holds of a request, and what it gets for each turn."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spade_jax.sampler.memory import Row
from spade_jax.sampler.prefixes import Prefix
from spade_jax.sampler.request import Request, check_budget

if TYPE_CHECKING:
    from spade_jax.sampler.engine import Engine


@dataclasses.dataclass(frozen=True)
class Turn:
    """What one turn sampled.

    Attributes:
        logprobs: of the tokens, under the request's policy.
        end: "stop" (a stop id or string, which is the last of the tokens), "length" (the turn's
            budget), "context" (no room for more) or "deadline" (the request's timeout).
        version: of the parameters.
    """

    handle: "Handle"
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    end: str
    version: int

    @property
    def stopped(self) -> bool:
        return self.end == "stop"


@dataclasses.dataclass(eq=False)
class Handle:
    """One request inside the engine.

    Attributes:
        pending: tokens that are known but not yet in the cache.
        awaited: the common prefix that another row reads for it.
        since: number of the job after which it could have had its next one.
        forgotten: tokens that rewritten histories left out.
        tokens, logprobs: what this turn has sampled.
    """

    engine: "Engine"
    request: Request
    order: int
    pending: list[int]
    budget: int
    deadline: float
    row: Row | None = None
    awaited: Prefix | None = None
    since: int = 0
    forgotten: int = 0
    tokens: list[int] = dataclasses.field(default_factory=list)
    logprobs: list[float] = dataclasses.field(default_factory=list)

    def extend(self, tokens: Sequence[int], max_new_tokens: int, kept: int | None = None) -> None:
        """Starts the next turn: `tokens` follow what was sampled last.

        Args:
            kept: how many of all the tokens so far remain before `tokens`; None: all.

        Raises:
            ContextError: no room for the tokens and one reply token.
            RuntimeError: the present turn still runs, or the handle is closed.
            ValueError: `kept` is out of range, or nothing follows what is kept.
        """
        check_budget(max_new_tokens)
        self.engine.go_on(self, list(tokens), max_new_tokens, kept)

    def room(self, context: int) -> int:
        """Tokens that this turn may still sample in a row of so many positions."""
        left = context - self.row.length - len(self.pending)
        return min(self.budget - len(self.tokens), left)

    def close(self) -> None:
        """Frees the slot, also in the middle of a turn. The handle must not be used afterwards."""
        self.engine.release(self)
