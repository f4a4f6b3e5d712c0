"""Designer rewards (paper, section 4): pure functions of the returns of one environment.

A new reward is one function here and one line in `REWARDS`.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from spade_jax.rl.averages import SkillAverages


@dataclasses.dataclass(frozen=True)
class RewardSettings:
    """Weights and scales of the rewards, named as in the paper's `blend`.

    Attributes:
        matched_timing: `regret` compares the two arms at the same weights, those of the
            regeneration step; False: with the plays of the whole window, as published.
    """

    w_reg: float = 0.4
    s_reg: float = 0.15
    regret_floor: bool = True
    w_plat: float = 0.6
    plateau_low: float = 0.4
    plateau_high: float = 0.6
    plateau_ramp: float = 0.25
    w_lp: float = 0.0
    s_lp: float = 0.10
    w_front: float = 0.0
    s_front: float = 0.08
    matched_timing: bool = True


@dataclasses.dataclass(frozen=True)
class Plays:
    """Returns of one environment, each in [-1, 1]. Voided plays are left out.

    Attributes:
        hint: returns with the hint, at the weights of the regeneration step.
        windows: one array per step of the delay window: returns without the hint. `windows[0]`
            was played at the same weights as `hint`.
        averages: of the environment's skill, this window's plays among them; None where nobody
            keeps any.
    """

    hint: np.ndarray
    windows: tuple[np.ndarray, ...]
    averages: SkillAverages | None = None

    @property
    def first(self) -> float:
        """R_0: mean return without the hint at the hint's weights."""
        return _mean(self.windows[0])

    @property
    def window_mean(self) -> float:
        """w: mean return over the whole window."""
        return _mean(np.concatenate(self.windows))

    @property
    def hint_mean(self) -> float:
        """R_hint."""
        return _mean(self.hint)

    @property
    def gap(self) -> float:
        """Signed hint gap R_hint - R_0 at matched weights; not floored, so unbiased."""
        return self.hint_mean - self.first


def _mean(values: np.ndarray) -> float:
    if len(values) == 0:
        raise ValueError("an environment without a single valid play has no reward")
    return float(np.mean(values))


def regret(plays: Plays, settings: RewardSettings) -> float:
    """max(0, R_hint - mean of the no-hint returns), the latter R_0 with matched timing."""
    without = plays.first if settings.matched_timing else plays.window_mean
    return max(0.0, plays.hint_mean - without)


def plateau(plays: Plays, settings: RewardSettings) -> float:
    """1 while the window's mean return lies in [low, high], falling linearly to 0 over `ramp` on
    both sides."""
    w = plays.window_mean
    outside = max(settings.plateau_low - w, w - settings.plateau_high, 0.0)
    return max(0.0, 1.0 - outside / settings.plateau_ramp)


def slope(plays: Plays) -> float:
    """Signed least-squares slope of the per-step mean returns, each step weighted by its number of
    plays, times (steps - 1): the fitted change over the window. 0 for a one-step window."""
    steps = [(t, _mean(r), len(r)) for t, r in enumerate(plays.windows) if len(r)]
    if len(steps) < 2:
        return 0.0
    t, r, n = (np.asarray(column, np.float64) for column in zip(*steps, strict=True))
    t_mean, r_mean = np.average(t, weights=n), np.average(r, weights=n)
    fitted = np.sum(n * (t - t_mean) * (r - r_mean)) / np.sum(n * (t - t_mean) ** 2)
    return float(fitted * (len(plays.windows) - 1))


def blend(plays: Plays, settings: RewardSettings) -> float:
    """The published main recipe: regret, plateau, learning progress and frontier terms.

    The regret term is clipped to [0, 1] with the floor and not clipped without it.
    """
    s = settings
    gap = plays.gap / s.s_reg
    gap = min(1.0, max(0.0, gap)) if s.regret_floor else gap
    frontier = (plays.window_mean - 0.5) ** 2 / s.s_front
    progress = s.w_lp * slope(plays) / s.s_lp if s.w_lp else 0.0
    return s.w_reg * gap + s.w_plat * plateau(plays, s) + progress - s.w_front * frontier


def micro_lp(plays: Plays, settings: RewardSettings) -> float:
    """max(0, late-half mean - early-half mean) of the per-step mean returns over the window.

    The halves have equally many steps, so the middle one of an odd number belongs to none. 0 for a
    one-step window. Steps without a valid play are left out.
    """
    del settings
    steps = [_mean(returns) for returns in plays.windows if len(returns)]
    half = len(steps) // 2
    return max(0.0, float(np.mean(steps[-half:]) - np.mean(steps[:half]))) if half else 0.0


def learning_potential(plays: Plays, settings: RewardSettings) -> float:
    """abs(w - mu_slow of the skill): how far the Agent's returns lie from where they have been.

    Raises ValueError for plays without their skill's averages.
    """
    del settings
    if plays.averages is None:
        raise ValueError("learning_potential needs the averages of the environment's skill")
    return abs(plays.window_mean - plays.averages.slow)


def regret_var(plays: Plays, settings: RewardSettings) -> float:
    """regret + exp(-(Var - 0.25)^2 / 0.02), with the population variance of the no-hint returns of
    the window: 0.25 is that of a coin, where the Agent wins half of the time (ours)."""
    variance = float(np.var(np.concatenate(plays.windows)))
    return regret(plays, settings) + math.exp(-((variance - 0.25) ** 2) / 0.02)


REWARDS: dict[str, Callable[[Plays, RewardSettings], float]] = {
    "regret": regret,
    "blend": blend,
    "plateau": plateau,
    "micro_lp": micro_lp,
    "learning_potential": learning_potential,
    "regret_var": regret_var,
}
