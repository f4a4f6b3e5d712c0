"""The training families by name, and the game skills of the paper. A new family is one line."""

from spade_jax.envs.library.balance import BalanceFamily
from spade_jax.envs.library.family import Family
from spade_jax.envs.library.levers import LeversFamily
from spade_jax.envs.library.lift import LiftFamily
from spade_jax.envs.library.press import PressFamily
from spade_jax.envs.library.rule import RuleFamily
from spade_jax.envs.library.search import SearchFamily
from spade_jax.envs.library.sequence import SequenceFamily
from spade_jax.envs.library.shop import ShopFamily

SKILLS: tuple[str, ...] = (
    "mathematical reasoning",
    "logical deduction",
    "spatial reasoning",
    "pattern recognition",
    "optimization",
    "causal inference",
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        RuleFamily(),
        BalanceFamily(),
        SearchFamily(),
        LiftFamily(),
        SequenceFamily(),
        PressFamily(),
        ShopFamily(),
        LeversFamily(),
    )
}

CUES: tuple[str, ...] = tuple(cue for family in FAMILIES.values() for cue in family.cues)
"""Sentences that make a document call for a family, all families together."""
