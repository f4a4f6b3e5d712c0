"""How the Agent's returns at a skill have been moving: what `learning_potential` compares with."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np


class SkillAverages(msgspec.Struct, frozen=True):
    """Moving averages of a skill's returns without the hint, in [-1, 1]; a higher weight of the
    new value forgets faster."""

    fast: float
    slow: float


def updated_averages(
    averages: Mapping[str, SkillAverages],
    returns: Mapping[str, Sequence[np.ndarray]],
    fast: float,
    slow: float,
) -> dict[str, SkillAverages]:
    """The averages after one more window of each skill in `returns`; others stay as they are.

    The new value is the mean over all of the skill's plays. A skill's first window starts both
    averages there.

    Args:
        returns: skill -> per environment, the returns of its window; at least one play.
        fast, slow: weights of the new value, in [0, 1].
    """
    after = dict(averages)
    for skill, windows in returns.items():
        new = float(np.mean(np.concatenate(windows)))
        old = averages.get(skill, SkillAverages(new, new))
        after[skill] = SkillAverages(
            fast * new + (1 - fast) * old.fast, slow * new + (1 - slow) * old.slow
        )
    return after
