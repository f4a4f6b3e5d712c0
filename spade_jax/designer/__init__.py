from spade_jax.designer.coverage import coverage, entropy, novelty, repeat_share
from spade_jax.designer.curriculum import active_skills, draw_pool, requests
from spade_jax.designer.design import (
    DesignRequest,
    DesignSettings,
    designer_prompt,
    validate,
    write_designs,
)
from spade_jax.designer.environment import Environment
from spade_jax.designer.guards import GUARDS, GuardSettings, check_skills, reject_degenerate
from spade_jax.designer.memory import (
    Difficulty,
    Memory,
    MemorySettings,
    Negative,
    Record,
    Selection,
)
from spade_jax.designer.repair import Conversations
from spade_jax.designer.skills import SkillMatcher, is_verbatim, tool_count, verbatim_keys
from spade_jax.designer.wire import DESIGNS

__all__ = [
    "DESIGNS",
    "GUARDS",
    "Conversations",
    "DesignRequest",
    "DesignSettings",
    "Difficulty",
    "Environment",
    "GuardSettings",
    "Memory",
    "MemorySettings",
    "Negative",
    "Record",
    "Selection",
    "SkillMatcher",
    "active_skills",
    "check_skills",
    "coverage",
    "designer_prompt",
    "draw_pool",
    "entropy",
    "is_verbatim",
    "novelty",
    "reject_degenerate",
    "repeat_share",
    "requests",
    "tool_count",
    "validate",
    "verbatim_keys",
    "write_designs",
]
