"""Which fixed environment is played next, and how hard it is.

A controller is its settings and has no state; what it has learned is a dictionary of `Standing`s,
which belongs to the run's. A new one is one class here, its line in `CONTROLLERS`, and its fields
under `c.curriculum.adaptive` in `configs/base.py`, by the same names.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np


class Pick(NamedTuple):
    """An environment and its level of difficulty, 0 being the easiest."""

    name: str
    level: int


class Standing(msgspec.Struct, omit_defaults=True):
    """What a controller knows about an environment, or about one of its levels.

    Attributes:
        level: the top one, so far.
        attempts, successes: plays at the top level since the last check, and those that succeeded.
        fast, slow: moving averages of the accuracy in [0, 1]; None before the first play.
    """

    level: int = 0
    attempts: int = 0
    successes: int = 0
    fast: float | None = None
    slow: float | None = None


Standings = dict[str, Standing]
Played = Sequence[tuple[Pick, Sequence[bool]]]  # of one step: each pick, and which plays succeeded


class Controller(Protocol):
    """Attributes: `limits` are levels per environment, None where there is no hardest one."""

    limits: Mapping[str, int | None]

    def picks(self, standings: Standings, count: int, rng: np.random.Generator) -> list[Pick]:
        """What a step plays; an environment may be there several times."""

    def observe(self, standings: Standings, played: Played) -> None:
        """Takes in the plays of a step."""


@dataclasses.dataclass(frozen=True)
class SlidingWindow:
    """An environment at random, at a level at random among the top `width` that it has reached.

    Once `attempts` (the paper's tau_num) or more plays at the top level are in, they are judged:
    where the share `promote` of them succeeded, there is one more level. Either way the count
    begins anew.
    """

    limits: Mapping[str, int | None]
    width: int = 4
    attempts: int = 128
    promote: float = 0.9

    def picks(self, standings: Standings, count: int, rng: np.random.Generator) -> list[Pick]:
        names, picks = list(self.limits), []
        for _ in range(count):
            name = names[int(rng.integers(len(names)))]
            top = standings.get(name, Standing()).level
            picks.append(Pick(name, int(rng.integers(max(0, top - self.width + 1), top + 1))))
        return picks

    def observe(self, standings: Standings, played: Played) -> None:
        for pick, won in played:
            standing = standings.setdefault(pick.name, Standing())
            if pick.level == standing.level:
                standing.attempts += len(won)
                standing.successes += sum(won)
        for name, standing in standings.items():
            if standing.attempts < self.attempts:
                continue
            limit = self.limits[name]
            succeeds = standing.successes >= self.promote * standing.attempts
            if succeeds and (limit is None or standing.level + 1 < limit):
                standing.level += 1
            standing.attempts = standing.successes = 0


@dataclasses.dataclass(frozen=True)
class LearningPotential:
    """Any level of any environment: the share `greedy` of the picks in proportion to its potential,
    |fast - slow|, which is large while its accuracy changes, and the others at random.

    `fast` and `slow` are the weights of a step's accuracy in the two moving averages, which begin
    with the first one.
    """

    limits: Mapping[str, int | None]
    levels: int = 8  # of an environment that has no hardest one, or more
    fast: float = 0.35
    slow: float = 0.15
    greedy: float = 0.5

    def picks(self, standings: Standings, count: int, rng: np.random.Generator) -> list[Pick]:
        arms = [
            Pick(name, level)
            for name, limit in self.limits.items()
            for level in range(min(self.levels, limit or self.levels))
        ]
        potentials = np.array([self.potential(standings.get(_key(arm))) for arm in arms])
        total, share = potentials.sum(), round(self.greedy * count)
        picks = []
        for index in range(count):
            weights = potentials / total if index < share and total > 0 else None
            picks.append(arms[int(rng.choice(len(arms), p=weights))])
        return picks

    def potential(self, standing: Standing | None) -> float:
        return 0.0 if standing is None else abs(standing.fast - standing.slow)

    def observe(self, standings: Standings, played: Played) -> None:
        plays: dict[str, list[bool]] = defaultdict(list)
        for pick, won in played:
            plays[_key(pick)] += won
        for key, won in plays.items():
            if not won:
                continue
            accuracy = sum(won) / len(won)
            if (standing := standings.get(key)) is None:
                standings[key] = Standing(fast=accuracy, slow=accuracy)
                continue
            standing.fast += self.fast * (accuracy - standing.fast)
            standing.slow += self.slow * (accuracy - standing.slow)


CONTROLLERS: dict[str, type[Controller]] = {
    "sliding_window": SlidingWindow,
    "learning_potential": LearningPotential,
}


def _key(pick: Pick) -> str:
    return f"{pick.name}@{pick.level}"
