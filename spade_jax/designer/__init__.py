from spade_jax.designer.curriculum import active_skills, requests
from spade_jax.designer.design import (
    DesignRequest,
    DesignSettings,
    designer_prompt,
    validate,
    write_designs,
)
from spade_jax.designer.environment import Environment
from spade_jax.designer.guards import check_skills, reject_degenerate, repeat_share, replay_wins
from spade_jax.designer.memory import Memory, MemorySettings, Negative, Record, Selection
from spade_jax.designer.skills import SkillMatcher, is_verbatim, verbatim_keys
from spade_jax.designer.wire import DESIGNS

__all__ = [
    "DESIGNS",
    "DesignRequest",
    "DesignSettings",
    "Environment",
    "Memory",
    "MemorySettings",
    "Negative",
    "Record",
    "Selection",
    "SkillMatcher",
    "active_skills",
    "check_skills",
    "designer_prompt",
    "is_verbatim",
    "reject_degenerate",
    "repeat_share",
    "replay_wins",
    "requests",
    "validate",
    "verbatim_keys",
    "write_designs",
]
