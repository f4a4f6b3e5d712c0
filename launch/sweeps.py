"""Sweeps as plain data: a recipe, what each arm changes in it, and the seeds."""

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
    """

    config: str
    arms: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...]
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)


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
)
