from spade_jax.designer.advice import UNKNOWN, Answer, Ask, asking_model, asking_server
from spade_jax.designer.coverage import coverage, novelty, repeat_share
from spade_jax.designer.curriculum import active_skills, requests
from spade_jax.designer.design import (
    DesignRequest,
    DesignSettings,
    designer_prompt,
    validate,
    write_designs,
)
from spade_jax.designer.environment import Environment
from spade_jax.designer.guards import GUARDS, GuardSettings, check_skills, reject_degenerate
from spade_jax.designer.hints import check_leaks, write_hints
from spade_jax.designer.memory import (
    Difficulty,
    Memory,
    MemorySettings,
    Negative,
    Record,
    Selection,
    entropy,
)
from spade_jax.designer.repair import Conversations
from spade_jax.designer.skills import SkillMatcher, is_verbatim, tool_count, verbatim_keys
from spade_jax.designer.verdicts import BROKEN, SOLVABLE, UNSOLVABLE, WORKS, audit, judge
from spade_jax.designer.wire import DESIGNS

__all__ = [
    "BROKEN",
    "DESIGNS",
    "GUARDS",
    "Conversations",
    "SOLVABLE",
    "UNKNOWN",
    "UNSOLVABLE",
    "WORKS",
    "Answer",
    "Ask",
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
    "asking_model",
    "asking_server",
    "audit",
    "check_leaks",
    "check_skills",
    "coverage",
    "designer_prompt",
    "entropy",
    "is_verbatim",
    "novelty",
    "judge",
    "reject_degenerate",
    "repeat_share",
    "requests",
    "tool_count",
    "validate",
    "verbatim_keys",
    "write_designs",
    "write_hints",
]
