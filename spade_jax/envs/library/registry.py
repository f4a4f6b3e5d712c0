"""The training families by name, and the game skills of the paper. A new family is one line."""

from spade_jax.envs.library.family import Family
from spade_jax.envs.library.levers import LeversFamily
from spade_jax.envs.library.lift import LiftFamily
from spade_jax.envs.library.rule import RuleFamily
from spade_jax.envs.library.search import SearchFamily

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
        SearchFamily(),
        LiftFamily(),
        LeversFamily(),
    )
}
