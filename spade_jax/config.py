"""Checks a config before anything expensive starts: each rule names a key and what is expected.

Rules of one value are here, those that join several in `relations`.
"""

from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from sandbox_runner.confine import ALLOWABLE
from spade_jax import models
from spade_jax.curricula import CONTROLLERS
from spade_jax.cycle import SOURCES
from spade_jax.designer import GUARDS
from spade_jax.envs import HINT_STYLES
from spade_jax.envs.library import DOMAINS
from spade_jax.pretrained import CHATS
from spade_jax.prompts import styles
from spade_jax.relations import relations
from spade_jax.remote import FIELDS
from spade_jax.rl import REWARDS
from spade_jax.settings import ConfigError

Rule = tuple[str, Callable[[Any], bool], str]


def _choice(key: str, options) -> Rule:
    options = sorted(options)
    return key, lambda value: value in options, f"one of {', '.join(options)}"


def _at_least(key: str, low: float) -> Rule:
    return key, lambda value: value >= low, f"at least {low}"


def _above(key: str, low: float) -> Rule:
    return key, lambda value: value > low, f"above {low}"


def _share(key: str) -> Rule:
    return key, lambda value: 0 <= value <= 1, "in [0, 1]"


RULES: tuple[Rule, ...] = (
    _at_least("steps", 1),
    _choice("prompts", styles()),
    _choice("model.preset", models.PRESETS),
    _choice("model.attention", models.ATTENTION),
    _choice("model.experts", models.EXPERTS),
    (
        "replica.processes", lambda v: v == 1,
        "1: a replica of several processes is not there yet, so the model must fit one process's"
        " devices",
    ),
    *(_at_least(f"distributed.{key}", 1) for key in ("start_s", "timeout_s")),
    _at_least("distributed.heartbeat_s", 5),
    _at_least("text.vocab_size", 400),
    _choice("text.chat", ("tiny", *CHATS)),
    *(
        _at_least(f"warm_start.{key}", 1)
        for key in ("designs", "episodes", "tokens", "designer_every")
    ),
    _at_least("warm_start.steps", 0),
    ("warm_start.mixture.easiest", lambda v: 2 <= v <= 60, "between 2 and 60"),
    _above("warm_start.mixture.spread", 0),
    *(
        _share(f"warm_start.mixture.{key}")
        for key in (
            "hard_tail", "generic_documents", "no_document", "vague_hints", "memory",
            "hinted_episodes", "noise_with_hint", "noise_without_hint",
        )
    ),
    _at_least("warm_start.mixture.memory_spread", 0),
    _at_least("warm_start.context_weight", 0),
    _above("warm_start.learning_rate", 0),
    _at_least("warm_start.matrix_rate", 0),
    _at_least("warm_start.save_every", 1),
    _at_least("grounding.max_words", 1),
    _at_least("memory.size", 1),
    *(_at_least(f"memory.{key}", 0) for key in ("positives", "negatives", "recent", "top")),
    _at_least("memory.snippet", 1),
    *(_share(f"memory.{key}") for key in ("use", "too_easy", "too_hard")),
    (
        "memory.band", lambda v: len(v) == 2 and 0 <= v[0] <= v[1] <= 1,
        "two rising shares in [0, 1]",
    ),
    _above("memory.duplicate", 0),
    ("curriculum.skills", lambda v: len(v) > 0, "at least one skill"),
    *(
        _at_least(f"curriculum.{key}", 1)
        for key in ("skills_per_regen", "num_envs", "max_attempts", "regen_interval")
    ),
    _at_least("curriculum.fixed_pool", 0),
    _choice("curriculum.domain", DOMAINS),
    _choice("curriculum.source", SOURCES),
    (
        "curriculum.lifecycle_band", lambda v: len(v) == 2 and -1 <= v[0] < v[1] <= 1,
        "two rising returns in [-1, 1]",
    ),
    _at_least("curriculum.lifecycle_plays", 1),
    _at_least("curriculum.replay_envs", 0),
    _at_least("curriculum.archive_size", 1),
    _choice("curriculum.adaptive.controller", CONTROLLERS),
    *(_at_least(f"curriculum.adaptive.{key}", 1) for key in ("width", "attempts", "levels")),
    *(_share(f"curriculum.adaptive.{key}") for key in ("promote", "fast", "slow", "greedy")),
    ("curriculum.adaptive.success", lambda v: -1 <= v <= 1, "in [-1, 1]"),
    _choice("designer.reward", REWARDS),
    _at_least("designer.delay", 1),
    _at_least("designer.temperature", 0),
    _at_least("designer.max_new_tokens", 1),
    _at_least("designer.weight", 0),
    _choice("designer.baseline", ("batch", "moving")),
    _choice("agent.baseline", ("group", "moving")),
    *(_share(f"{role}.baseline_decay") for role in ("designer", "agent")),
    _at_least("designer.negative_scale", 0),
    _share("designer.skill_similarity"),
    _above("designer.s_reg", 0),
    _above("designer.plateau_ramp", 0),
    _above("designer.s_lp", 0),
    _above("designer.s_front", 0),
    *(
        _at_least(f"agent.{key}", 1)
        for key in (
            "plays_per_env", "hint_plays_per_env", "seeds_per_env", "max_new_tokens", "max_turns"
        )
    ),
    _choice("agent.group", ("environment", "seed")),
    _at_least("agent.temperature", 0),
    *(_at_least(f"{role}.top_k", 0) for role in ("designer", "agent")),
    *(
        (f"{role}.top_p", lambda value: 0 < value <= 1, "above 0 up to 1")
        for role in ("designer", "agent")
    ),
    _at_least("agent.weight", 0),
    *(
        _at_least(f"sampler.{role}.{key}", 1)
        for role in ("designer", "agent")
        for key in ("num_slots", "page", "prefill_tokens", "decode_chunk", "streams")
    ),
    *(
        _at_least(f"sampler.{role}.{key}", 0)
        for role in ("designer", "agent")
        for key in ("cache_gib", "decode_rows", "past_tokens")
    ),
    *(
        (
            f"sampler.{role}.prefill_chunks",
            lambda v: len(v) > 0 and min(v) > 0 and list(v) == sorted(set(v)),
            "rising numbers above 0",
        )
        for role in ("designer", "agent")
    ),
    *(_at_least(f"sampler.{role}.max_len", 2) for role in ("designer", "agent")),
    *(_at_least(f"learner.{role}.rows", 1) for role in ("designer", "agent")),
    _choice("learner.aggregation", ("trajectory", "token")),
    _choice("learner.normalise", ("joint", "role")),
    _at_least("learner.entropy", 0),
    _at_least("learner.warmup_steps", 0),
    *(_share(f"learner.{key}") for key in ("b1", "b2")),
    _above("designer.max_scale", 0),
    _at_least("designer.replay_seeds", 1),
    _at_least("designer.repeat_cost", 0),
    *(_share(f"designer.average_{speed}") for speed in ("fast", "slow")),
    ("designer.guards", lambda v: set(v) <= set(GUARDS), f"names among {', '.join(GUARDS)}"),
    _at_least("designer.guesses", 2),
    *(_at_least(f"designer.{key}", 0) for key in ("coverage_bonus", "repair_turns")),
    _at_least("agent.format_bonus", 0),
    *(
        (f"{key}.sources", lambda v: len(v) > 0, "at least one source")
        for key in ("grounding", "warm_start")
    ),
    _choice("learner.old_logprobs", ("recomputed", "sampled")),
    *(_at_least(f"learner.{key}", 0) for key in ("clip_low", "clip_high", "kl", "weight_decay")),
    _above("learner.importance_cap", 0),
    _above("learner.learning_rate", 0),
    _above("learner.grad_clip", 0),
    _above("sandbox.call_cpu", 0),
    _at_least("sandbox.memory_mib", 16),
    _at_least("sandbox.total_mib", 0),
    _at_least("sandbox.max_children", 1),
    (
        "sandbox.allow_missing", lambda v: set(v) <= set(ALLOWABLE),
        f"layers among {', '.join(ALLOWABLE)}",
    ),
    _at_least("eval.every", 0),
    _at_least("eval.episodes", 0),
    _at_least("eval.greedy", 0),
    _at_least("eval.max_turns", 1),
    _at_least("checkpoint.every", 1),
    _at_least("checkpoint.keep", 1),
    _at_least("checkpoint.milestones_every", 0),
    _above("checkpoint.grace_s", 0),
    _choice("wandb.mode", ("online", "offline")),
    _choice("agent.hint_style", HINT_STYLES),
    _at_least("designer.self_judge_cost", 0),
    _choice("hints.source", ("inline", "self", "external")),
    _choice("hints.on_leak", ("reject", "drop")),
    _above("hints.leak_share", 0),
    _share("hints.leak_share"),
    _choice("audit.source", ("self", "external")),
    _choice("audit.unknown", ("accept", "reject")),
    *(_at_least(f"{key}.temperature", 0) for key in ("hints", "audit", "yardstick")),
    *(
        _at_least(key, 1)
        for key in (
            "designer.self_judge_tokens", "hints.max_words", "hints.leak_seeds", "yardstick.plays",
            *(f"{key}.max_new_tokens" for key in ("hints", "audit", "yardstick")),
            *(f"remote.{key}" for key in ("max_concurrency", "breaker_failures")),
        )
    ),
    (
        "remote.base_url", lambda v: v == "" or v.startswith(("http://", "https://")),
        "http://... or https://..., or nothing",
    ),
    *(_above(f"remote.{key}", 0) for key in ("timeout_s", "deadline_s", "breaker_s")),
    *(_at_least(f"remote.{key}", 0) for key in ("retries", "price_prompt", "price_completion")),
    ("remote.fields", lambda v: set(v) <= set(FIELDS), f"fields among {', '.join(FIELDS)}"),
)  # fmt: skip


def lookup(config: ConfigDict, key: str) -> Any:
    """The value of a dotted key."""
    value: Any = config
    for part in key.split("."):
        value = value[part]
    return value


def validate(config: ConfigDict) -> None:
    """Raises ConfigError at the first rule that does not hold. Compiles nothing."""
    for key, holds, expected in RULES:
        value = lookup(config, key)
        try:
            good = holds(value)
        except TypeError:
            good = False
        if not good:
            raise ConfigError(f"{key}={value!r}: expected {expected}")
    for key, good, expected in relations(config):
        if not good:
            raise ConfigError(f"{key}={lookup(config, key)!r}: expected {expected}")
