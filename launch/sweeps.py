"""Sweeps as plain data: a recipe, what each arm changes in it, and the seeds.

A new sweep is one `Sweep` and its line in `SWEEPS`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Attributes:
    config: recipe file.
    arms: name of the arm -> overrides of config keys.
    seeds: runs per arm.
    common: overrides of every arm.
    share_warm_start: a run of its own per seed trains the warm start that the seed's arms take.
    """

    config: str
    arms: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...] = (0,)
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    share_warm_start: bool = False

    def settings(self) -> set[str]:
        """The config keys that it changes."""
        return set(self.common).union(*self.arms.values())


# What designing adds: every arm starts from the seed's shared warm start.
STUDY = Sweep(
    config="configs/tiny.py",
    arms={
        "full": {},
        "frozen designer": {"designer.train": False},
        "fixed environments": {"curriculum.fixed_pool": 64},
        "no memory": {"memory.enabled": False},
    },
    seeds=(0, 1, 2),
    common={"steps": 60, "eval.episodes": 8, "checkpoint.every": 10},
    share_warm_start=True,
)

SWEEPS: Mapping[str, Sweep] = {
    "single": Sweep(config="configs/tiny.py", arms={"run": {}}),
    "seeds": Sweep(config="configs/tiny.py", arms={"run": {}}, seeds=(0, 1, 2, 3, 4)),
    "study": STUDY,
    "ablations": Sweep(
        config="configs/tiny.py",
        arms={
            "full": {},
            "no grounding": {"grounding.enabled": False},
            "no memory": {"memory.enabled": False},
            "frozen designer": {"designer.train": False},
        },
        seeds=(0, 1, 2),
    ),
    "rewards": Sweep(
        config="configs/tiny.py",
        arms={name: {"designer.reward": name} for name in ("blend", "regret", "plateau")},
        seeds=(0, 1, 2),
    ),
}
