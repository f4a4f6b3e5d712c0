"""The training families and the paper's skills, by domain. A new family is one line."""

import dataclasses
from collections.abc import Mapping

from spade_jax.envs.library.balance import BalanceFamily
from spade_jax.envs.library.family import Family
from spade_jax.envs.library.levers import LeversFamily
from spade_jax.envs.library.lift import LiftFamily
from spade_jax.envs.library.press import PressFamily
from spade_jax.envs.library.rule import RuleFamily
from spade_jax.envs.library.search import SearchFamily
from spade_jax.envs.library.sequence import SequenceFamily
from spade_jax.envs.library.shop import ShopFamily
from spade_jax.envs.library.tool_use import (
    CourierFamily,
    DepotFamily,
    ErrandFamily,
    LedgerFamily,
    OrderFamily,
    ValveFamily,
)

_SKILLS: dict[str, tuple[str, ...]] = {
    "games": (
        "mathematical reasoning",
        "logical deduction",
        "spatial reasoning",
        "pattern recognition",
        "optimization",
        "causal inference",
    ),
    "tool_use": (
        "API orchestration",
        "data retrieval",
        "state modification",
        "error recovery",
        "tool selection",
        "multi-step workflows",
    ),
}
_FAMILIES: tuple[Family, ...] = (
    RuleFamily(),
    BalanceFamily(),
    SearchFamily(),
    LiftFamily(),
    SequenceFamily(),
    PressFamily(),
    ShopFamily(),
    LeversFamily(),
    OrderFamily(),
    LedgerFamily(),
    ValveFamily(),
    CourierFamily(),
    DepotFamily(),
    ErrandFamily(),
)


@dataclasses.dataclass(frozen=True)
class Domain:
    """A kind of environment: how an agent acts in it, and what it trains.

    Attributes:
        families: by name; each trains one of `skills`.
    """

    skills: tuple[str, ...]
    families: Mapping[str, Family]

    @property
    def cues(self) -> tuple[str, ...]:
        """Sentences that make a document call for a family, all families together."""
        return tuple(cue for family in self.families.values() for cue in family.cues)


DOMAINS: dict[str, Domain] = {
    name: Domain(skills, {f.name: f for f in _FAMILIES if f.domain == name})
    for name, skills in _SKILLS.items()
}
GAMES = DOMAINS["games"]


def family_named(name: str) -> Family:
    """The training family of a name, whatever its domain. Raises KeyError for an unknown name."""
    return {family.name: family for family in _FAMILIES}[name]
