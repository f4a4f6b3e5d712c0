"""Builds the parts of a run from its config: everything that is not state."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
from ml_collections import ConfigDict

import sandbox_runner
from spade_jax import models, parallel, seeding, warm_start
from spade_jax.designer import DesignSettings, GuardSettings, MemorySettings, SkillMatcher
from spade_jax.envs import Player
from spade_jax.envs.library import DOMAINS
from spade_jax.grounding import Corpus, open_corpus
from spade_jax.language import Language
from spade_jax.models import ModelConfig
from spade_jax.parallel import Hosts
from spade_jax.pretrained import open_pretrained
from spade_jax.prompts import Prompts
from spade_jax.remote import RemoteModel
from spade_jax.rl import (
    DesignerAdvantageSettings,
    Learner,
    LearnerState,
    LossSettings,
    OptimizerSettings,
    RewardSettings,
)
from spade_jax.rollout import PlaySettings
from spade_jax.sampler import Engine, EngineSettings, SettingsError
from spade_jax.settings import ConfigError


@dataclasses.dataclass
class Rooms:
    """The parts that `train.py` moves data between.

    Attributes:
        hosts: the processes of the run; engines, pool and player are this process's own.
        mesh: of the learner, over the devices of all processes.
        to_replica: from there to the engines' mesh.
        engines: "designer" and "agent", which differ only in the shape of their cache.
        corpus: None when grounding is ablated.
        server: a model behind a server; None when the recipe needs none.
    """

    config: ConfigDict
    workdir: pathlib.Path
    hosts: Hosts
    mesh: object
    prompts: Prompts
    warm: warm_start.WarmStart
    language: Language
    learner: Learner
    to_replica: parallel.ToReplica
    engines: dict[str, Engine]
    pool: sandbox_runner.BlockingPool
    player: Player
    matcher: SkillMatcher
    corpus: Corpus | None
    design_settings: DesignSettings
    play_settings: PlaySettings
    reward_settings: RewardSettings
    advantage_settings: DesignerAdvantageSettings
    memory_settings: MemorySettings
    guard_settings: GuardSettings
    server: RemoteModel | None

    def sample_with(self, learner: LearnerState, *roles: str) -> None:
        """The engines of these roles sample with the learner's parameters from now on."""
        version = int(learner.version)
        self.hosts.agree("the weights' version", version)  # all are here: who waits has a deadline
        self.rest(*self.engines)  # there may be no room for the old and the new
        params = self.to_replica(learner.params)
        for role in roles:
            self.engines[role].load(params, version)

    def rest(self, *roles: str) -> None:
        """The engines of these roles let go of parameters and cache: others need the room."""
        for role in roles:
            self.engines[role].unload()


def pick(section: ConfigDict, settings_class, **more):
    """An instance of a settings dataclass from the fields of the same names."""
    names = {field.name for field in dataclasses.fields(settings_class)}
    found = {name: value for name, value in section.items() if name in names}
    return settings_class(**{**found, **more})


def _references(domain: str) -> list[tuple[str, str, str]]:
    """(skill, family, source) of a few seed environments of every family of a domain."""
    rng = seeding.generator("skill references")
    return [
        (family.skill, name, family.sample(rng).source)
        for name, family in DOMAINS[domain].families.items()
        for _ in range(8)
    ]


def open_engine(config: ConfigDict, mesh, role: str, model: ModelConfig) -> Engine:
    """The engine of a role.

    Raises:
        ConfigError: a setting of `sampler.ROLE` fits neither the replica nor the model.
    """
    slots = config.sampler[role].num_slots
    _check_divides(mesh, "replica", {f"sampler.{role}.num_slots": slots})
    try:
        return Engine(model, mesh, EngineSettings(**config.sampler[role]))
    except SettingsError as error:
        raise ConfigError(f"sampler.{role}.{error}") from error


def open_learner(config: ConfigDict, mesh, model: ModelConfig) -> Learner:
    return Learner(
        model, mesh, "policy", pick(config.learner, LossSettings),
        pick(config.learner, OptimizerSettings),
    )  # fmt: skip


def _check_divides(mesh, name: str, counts: Mapping[str, int]) -> None:
    shards = parallel.row_shards(mesh)
    for key, count in counts.items():
        if count % shards:
            axes = " * ".join(f"{name}.{axis}" for axis in parallel.ROW_AXES)
            raise ConfigError(f"{key}={count}: expected a multiple of {axes} = {shards}")


def _check_rows(config: ConfigDict, mesh) -> None:
    for role in ("designer", "agent"):
        counts = {
            f"learner.{role}.rows": config.learner[role].rows,
            f"warm_start.tokens // learner.{role}.length":
                config.warm_start.tokens // config.learner[role].length,
        }
        _check_divides(mesh, "mesh", counts)


def open_pool(config: ConfigDict) -> sandbox_runner.BlockingPool:
    """A sandbox pool whose host was checked.

    Raises:
        RunnerError: the host cannot contain untrusted programs; nothing is left running.
    """
    pool = sandbox_runner.BlockingPool(
        sandbox_runner.Limits(
            call_cpu=config.sandbox.call_cpu,
            memory_bytes=config.sandbox.memory_mib << 20,
            total_bytes=config.sandbox.total_mib << 20,
            max_children=config.sandbox.max_children,
            packages=tuple(config.sandbox.packages),
            allow_missing=tuple(config.sandbox.allow_missing),
        )
    )
    try:
        pool.layers()
    except BaseException:
        pool.shut_down()
        raise
    return pool


def _open_language(
    config: ConfigDict, workdir: pathlib.Path, prompts: Prompts, mesh
) -> tuple[warm_start.WarmStart, Language]:
    """What they need is made once, and kept in the workdir or the cache of models."""
    warm = warm_start.prepare(config, workdir, prompts)
    if config.model.checkpoint:
        return warm, open_pretrained(config, mesh)
    return warm, warm_start.fresh_language(config, mesh, warm)


def _settings(config: ConfigDict) -> dict[str, Any]:
    """Those fields of `Rooms` that are settings alone."""
    designer = config.designer
    return {
        "design_settings": pick(
            designer, DesignSettings, max_turns=config.agent.max_turns,
            snippet=config.memory.snippet, domain=config.curriculum.domain,
            inline_hint=config.hints.source == "inline",
        ),
        "play_settings": pick(config.agent, PlaySettings),
        "reward_settings": pick(designer, RewardSettings),
        "advantage_settings": pick(
            designer, DesignerAdvantageSettings, decay=designer.baseline_decay
        ),
        "memory_settings": pick(config.memory, MemorySettings),
        "guard_settings": pick(designer, GuardSettings),
    }  # fmt: skip


def build(
    config: ConfigDict,
    workdir: pathlib.Path,
    hosts: Hosts,
    pool: sandbox_runner.BlockingPool,
    server: RemoteModel | None,
) -> Rooms:
    """All parts; compiles nothing yet.

    Raises:
        ConfigError, CorpusError, MeshError, ModelError, PromptError, TextError, WarmStartError:
            a setting does not fit what is there.
    """
    cache = config.compilation_cache or str((workdir / "compilation_cache").absolute())
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    corpus = None
    if config.grounding.enabled:
        corpus = open_corpus(config.grounding.sources, config.grounding.weights)
    mesh, replicas = parallel.make_mesh(config.mesh), parallel.make_replicas(config.replica)
    _check_rows(config, mesh)
    prompts = Prompts(config.prompts)
    with hosts.leader_first("warm start's rows"):
        warm, language = _open_language(config, workdir, prompts, mesh)
    learner = open_learner(config, mesh, language.model)
    to_replica = parallel.ToReplica(
        learner.shardings.params, replicas, functools.partial(models.cast, language.model)
    )
    engines = {
        role: open_engine(config, to_replica.mesh, role, language.model)
        for role in ("designer", "agent")
    }
    references = _references(config.curriculum.domain)
    return Rooms(
        config=config,
        workdir=workdir,
        hosts=hosts,
        mesh=mesh,
        prompts=prompts,
        warm=warm,
        language=language,
        learner=learner,
        to_replica=to_replica,
        engines=engines,
        pool=pool,
        player=Player(
            engines["agent"], language.chats["agent"], pool, prompts, hosts, config.agent.hint_style
        ),
        matcher=SkillMatcher(references, config.designer.skill_similarity),
        corpus=corpus,
        server=server,
        **_settings(config),
    )  # fmt: skip
