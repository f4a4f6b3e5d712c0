"""Checks a config before anything expensive starts: each rule names a key and what is expected."""

import glob
import math
import pathlib
from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from sandbox_runner.confine import ALLOWABLE
from spade_jax import models, parallel
from spade_jax.designer import GUARDS
from spade_jax.envs import HINT_STYLES
from spade_jax.envs.library import DOMAINS
from spade_jax.pretrained import CHATS, THINKING
from spade_jax.prompts import styles
from spade_jax.remote import FIELDS, users
from spade_jax.rl import REWARDS
from spade_jax.warm_start.prepare import LIBRARY


class ConfigError(ValueError):
    """A setting is impossible; the message names the key, its value and what was expected."""


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
    ("memory.band", lambda v: 0 <= v[0] <= v[1] <= 1, "two rising shares in [0, 1]"),
    _above("memory.duplicate", 0),
    ("curriculum.skills", lambda v: len(v) > 0, "at least one skill"),
    *(
        _at_least(f"curriculum.{key}", 1)
        for key in ("skills_per_regen", "num_envs", "max_attempts", "regen_interval")
    ),
    _at_least("curriculum.fixed_pool", 0),
    _choice("curriculum.domain", DOMAINS),
    _choice("curriculum.source", ("designer", "pool", "folder", "adaptive")),
    (
        "curriculum.lifecycle_band", lambda v: len(v) == 2 and -1 <= v[0] < v[1] <= 1,
        "two rising returns in [-1, 1]",
    ),
    _at_least("curriculum.lifecycle_plays", 1),
    _at_least("curriculum.replay_envs", 0),
    _at_least("curriculum.archive_size", 1),
    _choice("curriculum.adaptive.controller", ("sliding_window", "learning_potential")),
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
    for key, value, good, expected in _relations(config):
        if not good:
            raise ConfigError(f"{key}={value!r}: expected {expected}")


def _relations(c: ConfigDict):
    """Rules that join several settings."""
    for key in ("plays_per_env", "hint_plays_per_env"):
        plays = c.agent[key]
        yield (
            f"agent.{key}", plays, plays % c.agent.seeds_per_env == 0,
            f"a multiple of agent.seeds_per_env={c.agent.seeds_per_env}",
        )  # fmt: skip
    yield (
        "designer.delay", c.designer.delay, c.designer.delay <= c.curriculum.regen_interval,
        f"at most curriculum.regen_interval={c.curriculum.regen_interval}",
    )  # fmt: skip
    yield (
        "curriculum.skills_per_regen", c.curriculum.skills_per_regen,
        c.curriculum.skills_per_regen <= len(c.curriculum.skills),
        f"at most the number of curriculum.skills={len(c.curriculum.skills)}",
    )  # fmt: skip
    if LIBRARY in c.warm_start.sources and c.warm_start.steps:
        known = DOMAINS[c.curriculum.domain].skills
        yield (
            "curriculum.skills", c.curriculum.skills, set(c.curriculum.skills) <= set(known),
            f"skills of curriculum.domain={c.curriculum.domain}: {', '.join(known)}",
        )  # fmt: skip
    for role in ("designer", "agent"):
        length, context = c.learner[role].length, c.sampler[role].max_len
        yield (
            f"learner.{role}.length", length, length >= context - 1,
            f"at least sampler.{role}.max_len - 1 = {context - 1}",
        )  # fmt: skip
        for mesh, key, count in (
            ("mesh", f"learner.{role}.rows", c.learner[role].rows),
            ("replica", f"sampler.{role}.num_slots", c.sampler[role].num_slots),
        ):
            shards = math.prod(max(1, c[mesh][axis]) for axis in parallel.ROW_AXES)
            axes = " * ".join(f"{mesh}.{axis}" for axis in parallel.ROW_AXES)
            yield key, count, count % shards == 0, f"a multiple of {axes} = {shards}"
    yield from _distributed(c.distributed)
    low, high = c.designer.plateau_low, c.designer.plateau_high
    yield (
        "designer.plateau_low", low, 0 <= low <= high,
        f"between 0 and designer.plateau_high={high}",
    )  # fmt: skip
    yield from _curriculum(c.curriculum)
    yield from _kept_with_environments(c)
    for role in ("designer", "agent"):
        tokens, context = c[role].max_new_tokens, c.sampler[role].max_len
        yield (
            f"{role}.max_new_tokens", tokens, tokens < context,
            f"below sampler.{role}.max_len={context}",
        )  # fmt: skip
        yield (
            "warm_start.tokens", c.warm_start.tokens,
            c.warm_start.tokens >= c.learner[role].length,
            f"at least learner.{role}.length={c.learner[role].length}",
        )  # fmt: skip
    yield (
        "grounding.weights", c.grounding.weights,
        len(c.grounding.weights) == len(c.grounding.sources) and min(c.grounding.weights) > 0,
        f"one positive weight for each of the {len(c.grounding.sources)} grounding.sources",
    )  # fmt: skip
    for key, sources in (("grounding", c.grounding.sources), ("warm_start", c.warm_start.sources)):
        for source in sources:
            path = source.removeprefix("jsonl:")
            if key == "warm_start":  # a run keeps its rows, so their file may be gone
                known = source == LIBRARY or path != source
                yield f"{key}.sources", source, known, f"{LIBRARY} or jsonl:PATH"
            elif path != source:
                yield f"{key}.sources", source, bool(glob.glob(path)), "an existing file"
    for key, used, role in (
        ("hints.max_new_tokens", c.hints.source == "self", "designer"),
        ("audit.max_new_tokens", c.audit.enabled and c.audit.source == "self", "designer"),
        ("designer.self_judge_tokens", c.designer.self_judge, "agent"),
    ):
        tokens, context = lookup(c, key), c.sampler[role].max_len
        yield (
            key, tokens, not used or tokens < context, f"below sampler.{role}.max_len={context}"
        )  # fmt: skip
    for key in ("base_url", "model"):
        yield (
            f"remote.{key}", c.remote[key], c.remote[key] != "" or not users(c),
            f"the server's, as {' and '.join(users(c))} needs one",
        )  # fmt: skip
    public = bool(c.model.checkpoint)
    yield (
        "text.chat", c.text.chat, (c.text.chat in CHATS) == public,
        f"one of {', '.join(CHATS)}, as model.checkpoint is set" if public
        else "tiny, as model.checkpoint is empty",
    )  # fmt: skip
    yield from _thinking(c)
    for key in ("episodes", "greedy"):
        yield (
            f"eval.{key}", c.eval[key],
            public or c.curriculum.domain == "games" or c.eval[key] == 0,
            f"0: held-out environments are games, and a new model of curriculum.domain="
            f"{c.curriculum.domain} cannot play them",
        )  # fmt: skip
    mixture = c.warm_start.mixture
    yield (
        "warm_start.mixture.generic_documents", mixture.generic_documents,
        mixture.generic_documents + mixture.no_document <= 1,
        f"at most 1 - warm_start.mixture.no_document={mixture.no_document}",
    )  # fmt: skip
    if c.warm_start.path:
        folder = pathlib.Path(c.warm_start.path) / "warm_start"
        yield "warm_start.path", c.warm_start.path, folder.is_dir(), "a workdir with warm_start/"


def _curriculum(section: ConfigDict):
    """What each source of environments needs."""
    pool, source, count = section.fixed_pool, section.source, section.num_envs
    yield (
        "curriculum.fixed_pool", pool, pool == 0 or pool >= count,
        f"0 or at least curriculum.num_envs={count}",
    )  # fmt: skip
    given = source == "designer" or (pool > 0) == (source == "pool")
    size = f"at least curriculum.num_envs={count}" if source == "pool" else "0"
    yield "curriculum.fixed_pool", pool, given, f"{size}, as curriculum.source={source}"
    yield (
        "curriculum.folder", section.folder, source != "folder" or bool(section.folder),
        "a folder of environments, as curriculum.source=folder",
    )  # fmt: skip
    yield (
        "curriculum.folder", section.folder, source in ("folder", "adaptive") or not section.folder,
        f"nothing, as curriculum.source={source}",
    )  # fmt: skip
    persistent = source in ("pool", "folder") or pool > 0
    yield (
        "curriculum.lifecycle", section.lifecycle, persistent or not section.lifecycle,
        "False, as no pool persists",
    )  # fmt: skip
    retires = section.lifecycle or (source == "designer" and not pool)
    yield (
        "curriculum.replay_envs", section.replay_envs, retires or not section.replay_envs,
        "0, as no environment retires: designs do, and those that curriculum.lifecycle drops",
    )  # fmt: skip


def _kept_with_environments(c: ConfigDict):
    """What is of use only where an environment has a next step."""
    moving, anew = c.agent.baseline == "moving", c.curriculum.source == "adaptive"
    because = "as curriculum.source=adaptive makes every step's environments anew"
    yield "agent.baseline", c.agent.baseline, not (moving and anew), f"group, {because}"
    measures = c.yardstick.enabled
    yield "yardstick.enabled", measures, not (measures and anew), f"False, {because}"
    yield (
        "agent.group", c.agent.group, not moving or c.agent.group == "environment",
        "environment, as agent.baseline=moving is one average for all its seeds",
    )  # fmt: skip
    drops = c.learner.drop_zero_variance
    yield (
        "learner.drop_zero_variance", drops, not moving or not drops,
        "False, as with agent.baseline=moving equal returns teach too",
    )  # fmt: skip


def _distributed(section: ConfigDict):
    """Either the cluster says everything, or the config does."""
    address, count, index = section.coordinator, section.num_processes, section.process_id
    yield (
        "distributed.coordinator", address,
        not address or address.rpartition(":")[2].isdigit() and address.rpartition(":")[0] != "",
        "HOST:PORT of process 0, or nothing where the cluster says it",
    )  # fmt: skip
    for key, value in (("num_processes", count), ("process_id", index)):
        yield (
            f"distributed.{key}", value, not section.enabled or not address or value >= 0,
            "the number given, as distributed.coordinator is",
        )  # fmt: skip
    yield (
        "distributed.process_id", index, count < 0 or index < count,
        f"below distributed.num_processes={count}",
    )  # fmt: skip


def _thinking(c: ConfigDict):
    for role in ("designer", "agent"):
        thinking = c[role].thinking
        yield (
            f"{role}.thinking", thinking, thinking is None or c.text.chat in THINKING,
            f"None, as text.chat={c.text.chat} cannot think; {', '.join(THINKING)} can",
        )  # fmt: skip
