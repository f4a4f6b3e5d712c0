"""From returns and designer rewards to advantages. Roles are never normalised together."""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence

import numpy as np


def group_advantages(
    returns: Sequence[float], groups: Sequence[Hashable], normalise: bool = True
) -> np.ndarray:
    """Agent advantages: return minus the mean of its group, divided by the group's population std
    when `normalise` (GRPO). A group without variance gives zeros (paper, section 5).

    Args:
        returns: `[P]`.
        groups: `[P]` group of each play.
    """
    returns = np.asarray(returns, np.float64)
    out = np.zeros_like(returns)
    for members in group_indices(groups).values():
        values = returns[members]
        spread = values.std()
        if spread > 1e-8:
            out[members] = (values - values.mean()) / (spread if normalise else 1.0)
    return out


def moving_advantages(
    values: Sequence[float],
    groups: Sequence[Hashable],
    averages: Mapping[Hashable, float],
    decay: float,
) -> tuple[np.ndarray, dict[Hashable, float]]:
    """Each value minus the moving average of its group as it was before, never divided.

    Args:
        values, groups: `[P]`.
        averages: per group; one that is not there starts with the group's mean.
        decay: weight of the old value in the moving average.

    Returns:
        `(advantages [P], averages after these values)`.
    """
    values = np.asarray(values, np.float64)
    advantages, after = np.zeros_like(values), dict(averages)
    for group, members in group_indices(groups).items():
        mean = float(values[members].mean())
        old = averages.get(group, mean)
        advantages[members] = values[members] - old
        after[group] = decay * old + (1.0 - decay) * mean
    return advantages, after


def zero_variance_groups(returns: Sequence[float], groups: Sequence[Hashable]) -> float:
    """Share of groups whose returns are all equal, hence carry no signal, in [0, 1]."""
    returns = np.asarray(returns, np.float64)
    spreads = [returns[members].std() for members in group_indices(groups).values()]
    return float(np.mean([spread <= 1e-8 for spread in spreads])) if spreads else 0.0


def varied(returns: Sequence[float], groups: Sequence[Hashable]) -> list[int]:
    """Indices, in order, of the plays whose group's returns are not all equal."""
    returns = np.asarray(returns, np.float64)
    members = group_indices(groups).values()
    return sorted(i for group in members if returns[group].std() > 1e-8 for i in group)


def group_indices(groups: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    members: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    return members


@dataclasses.dataclass(frozen=True)
class DesignerAdvantageSettings:
    """Attributes:
    baseline: "batch" centres on the mean of the skill's rewards in this update (the published
        rule), "moving" on the skill's moving average before this update.
    decay: weight of the old value in the moving average.
    max_scale: bound of the role-frequency scale.
    negative_scale: factor on negative advantages; below 1 it protects validity at small sizes.
    """

    baseline: str = "batch"
    decay: float = 0.8
    max_scale: float = 50.0
    negative_scale: float = 1.0


def role_scale(agent_rows: int, designer_rows: int, regen_interval: int, limit: float) -> float:
    """min(limit, agent rows / designer rows * regen_interval): balances how often each role is
    trained (paper, section 4)."""
    return min(limit, agent_rows / max(1, designer_rows) * regen_interval)


def designer_advantages(
    rewards: Sequence[float],
    skills: Sequence[str],
    baselines: dict[str, float],
    scale: float,
    settings: DesignerAdvantageSettings,
) -> tuple[np.ndarray, dict[str, float]]:
    """Rewards centred within each skill, never divided by a small-batch std, times `scale`.

    Args:
        rewards, skills: `[D]`.
        baselines: the skills' moving averages before this update.

    Returns:
        `(advantages [D], moving averages after this update)`.
    """
    advantages, updated = moving_advantages(rewards, skills, baselines, settings.decay)
    if settings.baseline == "batch":
        advantages, _ = moving_advantages(rewards, skills, {}, settings.decay)
    advantages = np.where(advantages < 0, advantages * settings.negative_scale, advantages)
    return advantages * scale, updated
