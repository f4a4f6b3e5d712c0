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
    recipes: name of the arm -> recipe file, for arms that do not run `config`.
    seeds: runs per arm.
    common: overrides of every arm.
    share_warm_start: a run of its own per seed trains the warm start that the seed's arms take.
    """

    config: str
    arms: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...] = (0,)
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    share_warm_start: bool = False
    recipes: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def recipe(self, arm: str) -> str:
        return self.recipes.get(arm, self.config)

    def sized(self, size: str) -> "Sweep":
        """The same sweep of recipes at a size of configs/sizes.py."""
        recipes = {arm: f"{recipe}:{size}" for arm, recipe in self.recipes.items()}
        return dataclasses.replace(self, config=f"{self.config}:{size}", recipes=recipes)

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

# What the paper takes away from its 30B games recipe, one at a time.
ABLATIONS = (
    "no corpus", "no memory", "no designer training no memory", "fixed pool", "two skills",
    "learning potential", "solve rate",
)  # fmt: skip
BASELINES = "fixed_pool_qwen3_30b_a3b", "fixed_pool_sliding_window", "fixed_pool_learning_potential"
PAPER = tuple(
    f"{domain}_qwen3_{size}"
    for domain in ("games", "tool_use") for size in ("4b", "8b", "30b_a3b")
)  # fmt: skip
REWARDS = "blend", "regret", "plateau", "learning_potential", "micro_lp", "regret_var"

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
        arms={name: {"designer.reward": name} for name in REWARDS},
        seeds=(0, 1, 2),
    ),
    "paper_ablations": Sweep(
        config="configs/games_qwen3_30b_a3b.py",
        arms=dict.fromkeys(("full", *ABLATIONS), {}),
        recipes={arm: f"configs/ablations/{arm.replace(' ', '_')}.py" for arm in ABLATIONS},
    ),
    "paper_baselines": Sweep(
        config="configs/games_qwen3_30b_a3b.py",
        arms=dict.fromkeys(("self-play", *BASELINES), {}),
        recipes={arm: f"configs/{arm}.py" for arm in BASELINES},
    ),
    "paper": Sweep(  # its six main runs
        config=f"configs/{PAPER[0]}.py",
        arms=dict.fromkeys(PAPER, {}),
        recipes={name: f"configs/{name}.py" for name in PAPER},
    ),
}
