"""Sizes that a recipe can be run at: `--config=configs/games_qwen3_4b.py:tiny`.

A size changes what a recipe costs and leaves what it does: rewards, switches, intervals and skills
stay the recipe's own. Recipes of one size share their compiled programs.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

PUBLISHED = ""

SIZES: Mapping[str, Mapping[str, Any]] = {
    PUBLISHED: {},
    "tiny": {  # the model of configs/tiny.py, on a laptop
        "prompts": "compact",
        "model.preset": "tiny",
        "model.checkpoint": "",
        "text.chat": "tiny",
        "distributed.enabled": False,
        **{f"{mesh}.data": -1 for mesh in ("mesh", "replica")},
        **{
            f"{mesh}.{axis}": 1
            for mesh in ("mesh", "replica") for axis in ("fsdp", "tensor", "expert")
        },
        "warm_start.designs": 2000,
        "warm_start.episodes": 8000,
        "warm_start.steps": 600,
        "warm_start.tokens": 2048,
        "warm_start.designer_every": 4,
        "grounding.sources": ("bundled",),
        "grounding.weights": (1.0,),
        "grounding.max_words": 24,
        "memory.positives": 1,
        "memory.snippet": 1600,
        "curriculum.num_envs": 6,
        "curriculum.max_attempts": 2,
        "designer.max_new_tokens": 96,
        "designer.replay_seeds": 4,
        "designer.self_judge_tokens": 16,
        "hints.source": "inline",  # this model learns to write no other hints
        "hints.max_new_tokens": 32,
        "audit.max_new_tokens": 16,
        "agent.plays_per_env": 2,
        "agent.hint_plays_per_env": 2,
        "agent.max_new_tokens": 16,
        "agent.max_turns": 12,
        **{
            f"sampler.{role}.{key}": value
            for role in ("designer", "agent")
            for key, value in {
                "prefill_tokens": 256, "prefill_chunks": (16, 64), "decode_rows": 16, "page": 64,
                "cache_gib": 0.0, "past_tokens": 0,
            }.items()
        },
        "sampler.warm_up": False,
        "sampler.designer.num_slots": 6,
        "sampler.designer.max_len": 256,
        "sampler.agent.num_slots": 24,
        "sampler.agent.max_len": 160,
        "learner.designer.rows": 2,
        "learner.designer.length": 255,
        "learner.agent.rows": 4,
        "learner.agent.length": 159,
        "learner.learning_rate": 3e-4,
        "sandbox.call_cpu": 1.0,
        "eval.episodes": 1,
    },
}  # fmt: skip

# What a size changes besides where the recipe is of a domain.
OF_DOMAIN: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("tiny", "tool_use"): {
        "grounding.sources": ("bundled:tool_use",),
        "eval.episodes": 0,  # there are no held-out tasks with tools
        "eval.greedy": 0,
    },
}


def fit(config: ConfigDict, size: str) -> ConfigDict:
    """The recipe at a size. Raises ValueError for one that is not known."""
    if size not in SIZES:
        known = ", ".join(name for name in SIZES if name)
        raise ValueError(f"size {size!r} of the recipe: expected {known}, or none as published")
    with config.ignore_type():
        config.update_from_flattened_dict(SIZES[size])
        config.update_from_flattened_dict(OF_DOMAIN.get((size, config.curriculum.domain), {}))
    return config
