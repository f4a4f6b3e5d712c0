"""Rules that join several settings, by section: what one may be where others are as they are."""

import glob
import math
import pathlib
from collections.abc import Iterator

from ml_collections import ConfigDict

from spade_jax import parallel
from spade_jax.cycle import SOURCES, source_name
from spade_jax.envs.library import DOMAINS
from spade_jax.pretrained import CHATS, THINKING
from spade_jax.remote import users
from spade_jax.warm_start.prepare import LIBRARY

ROLES = ("designer", "agent")

Relation = tuple[str, bool, str]  # dotted key, whether it holds, what is expected of the value


def relations(c: ConfigDict) -> Iterator[Relation]:
    """All of them, for a config whose values are possible one by one."""
    yield from _plays(c)
    yield from _curriculum(c)
    yield from _kept_with_environments(c)
    yield from _advice(c)
    yield from _shapes(c)
    yield from _documents(c)
    yield from _warm_start(c)
    yield from _model(c)
    yield from _distributed(c.distributed)


def _plays(c: ConfigDict) -> Iterator[Relation]:
    for key in ("plays_per_env", "hint_plays_per_env"):
        yield (
            f"agent.{key}", c.agent[key] % c.agent.seeds_per_env == 0,
            f"a multiple of agent.seeds_per_env={c.agent.seeds_per_env}",
        )  # fmt: skip
    yield (
        "designer.delay", c.designer.delay <= c.curriculum.regen_interval,
        f"at most curriculum.regen_interval={c.curriculum.regen_interval}",
    )  # fmt: skip
    high = c.designer.plateau_high
    yield (
        "designer.plateau_low", 0 <= c.designer.plateau_low <= high,
        f"between 0 and designer.plateau_high={high}",
    )  # fmt: skip


def _curriculum(c: ConfigDict) -> Iterator[Relation]:
    """What skills and each source of environments need."""
    section = c.curriculum
    pool, source, count = section.fixed_pool, section.source, section.num_envs
    yield (
        "curriculum.skills_per_regen", section.skills_per_regen <= len(section.skills),
        f"at most the number of curriculum.skills={len(section.skills)}",
    )  # fmt: skip
    enough = f"at least curriculum.num_envs={count}"
    yield "curriculum.fixed_pool", pool == 0 or pool >= count, f"0 or {enough}"
    given = source == "designer" or (pool > 0) == (source == "pool")
    size = enough if source == "pool" else "0"
    yield "curriculum.fixed_pool", given, f"{size}, as curriculum.source={source}"
    yield (
        "curriculum.folder", source != "folder" or bool(section.folder),
        "a folder of environments, as curriculum.source=folder",
    )  # fmt: skip
    yield (
        "curriculum.folder", source in ("folder", "adaptive") or not section.folder,
        f"nothing, as curriculum.source={source}",
    )  # fmt: skip
    name = source_name(section)
    yield (
        "curriculum.lifecycle", name in ("pool", "folder") or not section.lifecycle,
        "False, as no pool persists",
    )  # fmt: skip
    retires = section.lifecycle or name == "designer"
    yield (
        "curriculum.replay_envs", retires or not section.replay_envs,
        "0, as no environment retires: designs do, and those that curriculum.lifecycle drops",
    )  # fmt: skip
    yield (
        "curriculum.difficulty_hints", c.memory.enabled or not section.difficulty_hints,
        "False, as memory.enabled=False: it is the memory that knows how the agent does",
    )  # fmt: skip


def _kept_with_environments(c: ConfigDict) -> Iterator[Relation]:
    """What is of use only where an environment has a next step."""
    moving, anew = c.agent.baseline == "moving", c.curriculum.source == "adaptive"
    because = "as curriculum.source=adaptive makes every step's environments anew"
    yield "agent.baseline", not (moving and anew), f"group, {because}"
    yield "yardstick.enabled", not (c.yardstick.enabled and anew), f"False, {because}"
    yield (
        "agent.group", not moving or c.agent.group == "environment",
        "environment, as agent.baseline=moving is one average for all its seeds",
    )  # fmt: skip
    yield (
        "learner.drop_zero_variance", not moving or not c.learner.drop_zero_variance,
        "False, as with agent.baseline=moving equal returns teach too",
    )  # fmt: skip


def _advice(c: ConfigDict) -> Iterator[Relation]:
    """Who is asked, about which environments, and whether there is room for the answer."""
    source = c.curriculum.source
    designed = "designer" in SOURCES[source].roles
    for key, asked, off in (
        ("audit.enabled", c.audit.enabled, "False"),
        ("hints.source", c.hints.source == "external", "inline or self"),
        ("hints.leak_check", c.hints.leak_check, "False"),
    ):
        yield (
            key, designed or not asked,
            f"{off}, as curriculum.source={source}: only environments that the designer writes are "
            "audited and given hints",
        )  # fmt: skip
    for key, asked, tokens, role in (
        ("hints.max_new_tokens", c.hints.source == "self", c.hints.max_new_tokens, "designer"),
        (
            "audit.max_new_tokens", c.audit.enabled and c.audit.source == "self",
            c.audit.max_new_tokens, "designer",
        ),
        (
            "designer.self_judge_tokens", c.designer.self_judge, c.designer.self_judge_tokens,
            "agent",
        ),
    ):  # fmt: skip
        context = c.sampler[role].max_len
        yield key, not asked or tokens < context, f"below sampler.{role}.max_len={context}"
    for key in ("base_url", "model"):
        yield (
            f"remote.{key}", c.remote[key] != "" or not users(c),
            f"the server's, as {' and '.join(users(c))} needs one",
        )  # fmt: skip


def _shapes(c: ConfigDict) -> Iterator[Relation]:
    """Rows fit their contexts, and divide over the devices."""
    for role in ROLES:
        length, context = c.learner[role].length, c.sampler[role].max_len
        yield (
            f"learner.{role}.length", length >= context - 1,
            f"at least sampler.{role}.max_len - 1 = {context - 1}",
        )  # fmt: skip
        for mesh, key, count in (
            ("mesh", f"learner.{role}.rows", c.learner[role].rows),
            ("replica", f"sampler.{role}.num_slots", c.sampler[role].num_slots),
        ):
            shards = math.prod(max(1, c[mesh][axis]) for axis in parallel.ROW_AXES)
            axes = " * ".join(f"{mesh}.{axis}" for axis in parallel.ROW_AXES)
            yield key, count % shards == 0, f"a multiple of {axes} = {shards}"
        yield (
            f"{role}.max_new_tokens", c[role].max_new_tokens < context,
            f"below sampler.{role}.max_len={context}",
        )  # fmt: skip
        yield (
            "warm_start.tokens", c.warm_start.tokens >= length,
            f"at least learner.{role}.length={length}",
        )  # fmt: skip


def _documents(c: ConfigDict) -> Iterator[Relation]:
    sources, weights = c.grounding.sources, c.grounding.weights
    yield (
        "grounding.weights", len(weights) == len(sources) and min(weights) > 0,
        f"one positive weight for each of the {len(sources)} grounding.sources",
    )  # fmt: skip
    for source in sources:
        path = source.removeprefix("jsonl:")
        yield (
            "grounding.sources", path == source or bool(glob.glob(path)),
            f"an existing file in {source}",
        )  # fmt: skip


def _warm_start(c: ConfigDict) -> Iterator[Relation]:
    section, domain = c.warm_start, c.curriculum.domain
    for source in section.sources:  # a run keeps its rows, so their file may be gone
        known = source == LIBRARY or source.startswith("jsonl:")
        yield "warm_start.sources", known, f"{LIBRARY} or jsonl:PATH in place of {source!r}"
    if LIBRARY in section.sources and section.steps:
        known = DOMAINS[domain].skills
        yield (
            "curriculum.skills", set(c.curriculum.skills) <= set(known),
            f"skills of curriculum.domain={domain}: {', '.join(known)}",
        )  # fmt: skip
    mixture = section.mixture
    yield (
        "warm_start.mixture.generic_documents",
        mixture.generic_documents + mixture.no_document <= 1,
        f"at most 1 - warm_start.mixture.no_document={mixture.no_document}",
    )  # fmt: skip
    kept = not section.path or (pathlib.Path(section.path) / "warm_start").is_dir()
    yield "warm_start.path", kept, "a workdir with warm_start/"


def _model(c: ConfigDict) -> Iterator[Relation]:
    """What a new model and a public one can do."""
    public, chat = bool(c.model.checkpoint), c.text.chat
    yield (
        "text.chat", (chat in CHATS) == public,
        f"one of {', '.join(CHATS)}, as model.checkpoint is set" if public
        else "tiny, as model.checkpoint is empty",
    )  # fmt: skip
    for role in ROLES:
        yield (
            f"{role}.thinking", c[role].thinking is None or chat in THINKING,
            f"None, as text.chat={chat} cannot think; {', '.join(THINKING)} can",
        )  # fmt: skip
    for key in ("episodes", "greedy"):
        yield (
            f"eval.{key}", public or c.curriculum.domain == "games" or c.eval[key] == 0,
            f"0: held-out environments are games, and a new model of curriculum.domain="
            f"{c.curriculum.domain} cannot play them",
        )  # fmt: skip


def _distributed(section: ConfigDict) -> Iterator[Relation]:
    """Either the cluster says everything, or the config does."""
    address, count, index = section.coordinator, section.num_processes, section.process_id
    host, _, port = address.rpartition(":")
    yield (
        "distributed.coordinator", not address or port.isdigit() and host != "",
        "HOST:PORT of process 0, or nothing where the cluster says it",
    )  # fmt: skip
    for key, value in (("num_processes", count), ("process_id", index)):
        yield (
            f"distributed.{key}", not section.enabled or not address or value >= 0,
            "the number given, as distributed.coordinator is",
        )  # fmt: skip
    yield (
        "distributed.process_id", count < 0 or index < count,
        f"below distributed.num_processes={count}",
    )  # fmt: skip
