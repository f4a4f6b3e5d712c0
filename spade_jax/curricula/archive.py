"""Retired environments, kept to see and to prevent that the agent forgets them."""

from collections.abc import Sequence

import msgspec
import numpy as np

from spade_jax.designer import Environment
from spade_jax.rollout import Trajectory

BINS = 10  # of win rates, for the spread of what is kept


class Archived(msgspec.Struct):
    """One retired environment.

    Attributes:
        win_rate: mean return without the hint over its life, in [-1, 1].
        latest: mean return of its newest plays, those before it retired included.
        baselines: see `Environment`.
    """

    name: str
    skill: str
    source: str
    shareable: bool
    born: int
    win_rate: float
    latest: float
    baselines: dict[str, float] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, environment: Environment, win_rate: float | None = None) -> "Archived | None":
        """Its win rate is that of its windows unless given; None where it was never played."""
        if win_rate is None:
            returns = [value for window in environment.windows for value in window]
            if not returns:
                return None
            win_rate = sum(returns) / len(returns)
        return cls(
            environment.name, environment.skill, environment.source, environment.shareable,
            environment.born, win_rate, win_rate, dict(environment.baselines),
        )  # fmt: skip

    def environment(self) -> Environment:
        """To be played again: without a hint, and without its designer."""
        return Environment(
            self.name, self.skill, None, "", self.born, Trajectory(), source=self.source,
            shareable=self.shareable, trained=True, baselines=dict(self.baselines),
        )  # fmt: skip


def keep_spread(
    archive: Sequence[Archived], retired: Sequence[Archived], size: int
) -> list[Archived]:
    """The archive with those newly retired, oldest first, at most `size` of them: the oldest goes
    whose win rate is of the commonest ones."""
    kept = [*archive, *retired]
    while len(kept) > size:
        bins = [_bin(each.win_rate) for each in kept]
        del kept[bins.index(max(bins, key=bins.count))]
    return kept


def draw_spread(
    archive: Sequence[Archived], count: int, rng: np.random.Generator
) -> list[Archived]:
    """One from each of `count` equally large parts of the archive, from the hardest to the easiest
    by their latest win rate; all of a smaller archive."""
    count = min(count, len(archive))
    if not count:
        return []
    order = sorted(archive, key=lambda each: each.latest)  # stable: the oldest of equals first
    parts = np.array_split(np.arange(len(order)), count)
    return [order[int(rng.choice(part))] for part in parts]


def _bin(win_rate: float) -> int:
    return min(BINS - 1, max(0, int(win_rate * BINS)))
