"""Rounds of designs: what the designer is asked for, writes, and what becomes of it."""

from collections.abc import Sequence

from spade_jax import seeding
from spade_jax.cycle.advising import advise
from spade_jax.designer import (
    DESIGNS,
    Conversations,
    DesignRequest,
    Environment,
    Memory,
    active_skills,
    check_skills,
    requests,
    validate,
    write_designs,
)
from spade_jax.grounding import DocumentSampler
from spade_jax.progress import Progress
from spade_jax.rooms import Rooms
from spade_jax.state import RunState

POOL_ROUNDS = 20  # rounds of designs that may fill a fixed pool


class PoolError(RuntimeError):
    """A source of environments has too few of them: a pool was not filled, or nothing is left of
    it; a folder can not be read, or holds too few that can be used."""


def make_designs(
    rooms: Rooms, state: RunState, progress: Progress, label: str, regeneration: int
) -> list[Environment]:
    """Writes and validates designs until every slot has an accepted one or its attempts are used.

    Args:
        label: first part of the designs' names; unique in the run.
        regeneration: number of this round, which picks the active skills.

    Returns:
        All attempts, accepted or not.
    """
    config, records = rooms.config, state.records
    step, curriculum = records.step, config.curriculum
    memory = Memory.from_json(records.memory, rooms.memory_settings)
    documents = open_documents(rooms, records.documents)
    target = config.designer.plateau_low, config.designer.plateau_high
    skills = active_skills(
        list(curriculum.skills), curriculum.skills_per_regen, regeneration
    )
    designs: list[Environment] = []
    slots = list(range(curriculum.num_envs))
    for attempt in range(curriculum.max_attempts):
        wanted = requests(
            [f"{label}-{slot:02d}" + (f"-{attempt}" if attempt else "") for slot in slots],
            [skills[slot % len(skills)] for slot in slots],
            documents,
            memory if config.memory.enabled else None,
            config.memory.use,
            lambda label: seeding.derive(config.seed, label),
            target if curriculum.difficulty_hints else None,
        )
        drafts = rooms.hosts.spread(
            "designs", lambda share: _try_designs(rooms, share, step, progress), wanted, DESIGNS
        )
        designs += drafts
        slots = [slot for slot, draft in zip(slots, drafts, strict=True) if not draft.accepted]
        if not slots:
            break
    if documents is not None:
        records.documents = documents.state()
    return designs


def _try_designs(
    rooms: Rooms, wanted: Sequence[DesignRequest], step: int, progress: Progress
) -> list[Environment]:
    """One design per request, with its verdict, after as many repairs as it takes and gets."""
    config, prompts, settings = rooms.config, rooms.prompts, rooms.design_settings
    engine, chat = rooms.engines["designer"], rooms.language.chats["designer"]
    with progress.phase("design"):
        drafts = write_designs(engine, chat, prompts, wanted, settings, step)
    _judge(rooms, drafts, progress)
    conversations = Conversations(prompts, wanted, settings)
    for _ in range(config.designer.repair_turns):
        with progress.phase("design"):
            answered = conversations.repair(
                engine, chat, drafts, lambda label: seeding.derive(config.seed, label)
            )
        _judge(rooms, answered, progress)
    return drafts


def _judge(rooms: Rooms, drafts: Sequence[Environment], progress: Progress) -> None:
    config = rooms.config
    with progress.phase("validate"):
        validate(rooms.pool, drafts, config.agent.max_turns)
        check_skills(rooms.matcher, drafts, config.designer.check_skill, rooms.warm.sources)
    advise(rooms, drafts, progress)


def open_documents(rooms: Rooms, position: dict) -> DocumentSampler | None:
    """The document order at a saved position; None when grounding is ablated."""
    if rooms.corpus is None:
        return None
    config = rooms.config
    documents = DocumentSampler(
        rooms.corpus, seeding.derive(config.seed, "documents"), config.grounding.max_words
    )
    if position:
        documents.restore(position)
    return documents


def fill_pool(rooms: Rooms, state: RunState, progress: Progress) -> list[Environment]:
    """The fixed pool: accepted designs of the designer as it is now, written once.

    Raises:
        PoolError: the designer writes too few valid designs to fill it.
    """
    wanted, pool = rooms.config.curriculum.fixed_pool, []
    for round_ in range(POOL_ROUNDS):
        made = make_designs(rooms, state, progress, f"pool{round_}", round_)
        pool += [design for design in made if design.accepted]
        if len(pool) >= wanted:
            return pool[:wanted]
    raise PoolError(
        f"curriculum.fixed_pool={wanted}: {POOL_ROUNDS} rounds of designs gave {len(pool)} valid"
    )
