"""Where the live environments of a step come from: `curriculum.source`.

A new source is one class here and its line in `SOURCES`.
"""

import pathlib
import zlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec
from ml_collections import ConfigDict

from spade_jax import seeding, statistics
from spade_jax.curricula import (
    CONTROLLERS,
    Archived,
    Controller,
    CurriculumRecords,
    FolderError,
    Graded,
    Pick,
    Rejections,
    Tally,
    judged,
    read_folder,
    seed_environments,
)
from spade_jax.cycle.designing import PoolError, fill_pool, make_designs
from spade_jax.designer import DESIGNS, Environment, validate
from spade_jax.grounding import cut_words
from spade_jax.progress import Progress
from spade_jax.rollout import Trajectory
from spade_jax.rooms import Rooms, pick
from spade_jax.state import Records, RunState

# Rules against shortcuts of a designer: who writes by hand may begin with what is easy.
ABOUT_DIFFICULTY = ("constant", "trivial", "leak")
ROUNDING = 1e-6  # of a return that is as large as asked for


class Lesson(NamedTuple):
    """Attributes:
    fresh: designs that were written in this step, accepted or not.
    live: environments to play in it.
    """

    fresh: list[Environment]
    live: list[Environment]


class Settled(NamedTuple):
    """Attributes:
    retired: environments that this step was the last one of.
    """

    retired: list[Archived]
    metrics: statistics.Metrics


class Source(Protocol):
    """Attributes: `roles` are the engines that it needs."""

    roles: tuple[str, ...]

    def begin(self, rooms: Rooms) -> Records:
        """What a run starts with. Raises PoolError where it has nothing to play."""

    def lesson(self, rooms: Rooms, state: RunState, progress: Progress) -> Lesson:
        """This step's environments. Raises PoolError as `begin`."""

    def settle(self, rooms: Rooms, records: Records, live: Sequence[Environment]) -> Settled:
        """Takes in how they were played. Raises PoolError where nothing is left to play."""


class Designed:
    """Every epoch's designs, which live for it."""

    roles = ("designer", "agent")

    def begin(self, rooms: Rooms) -> Records:
        return Records()

    def lesson(self, rooms: Rooms, state: RunState, progress: Progress) -> Lesson:
        records, interval = state.records, rooms.config.curriculum.regen_interval
        step, fresh = records.step, []
        if step % interval == 0:
            fresh = make_designs(rooms, state, progress, f"{step:05d}", step // interval)
            records.designs += fresh
        return Lesson(fresh, self._alive(records.designs, step, interval))

    def settle(self, rooms: Rooms, records: Records, live: Sequence[Environment]) -> Settled:
        interval = rooms.config.curriculum.regen_interval
        alive = {d.name for d in self._alive(records.designs, records.step + 1, interval)}
        records.designs = [d for d in records.designs if not d.trained or d.name in alive]
        over = [Archived.of(e) for e in live if e.accepted and e.name not in alive]
        return Settled([each for each in over if each is not None], {})

    def _alive(
        self, designs: Sequence[Environment], step: int, interval: int
    ) -> list[Environment]:
        """The accepted designs of the regeneration epoch that `step` belongs to."""
        return [d for d in designs if d.accepted and d.born // interval == step // interval]


class Pool:
    """Designs that were written at step 0, drawn without replacement."""

    roles = ("designer", "agent")

    def begin(self, rooms: Rooms) -> Records:
        return Records()

    def lesson(self, rooms: Rooms, state: RunState, progress: Progress) -> Lesson:
        records, config = state.records, rooms.config
        records.pool = records.pool or fill_pool(rooms, state, progress)
        pool = {environment.name: environment for environment in records.pool}
        deck = records.curriculum.deck
        names = deck.draw(list(pool), config.curriculum.num_envs, config.seed)
        live = [pool[name] for name in names]
        for environment in live:
            environment.born = records.step
            environment.windows, environment.hint_returns, environment.faults = [], [], 0
        return Lesson([], live)

    def settle(self, rooms: Rooms, records: Records, live: Sequence[Environment]) -> Settled:
        section, known = rooms.config.curriculum, records.curriculum
        retired = _drop(section, records, live) if section.lifecycle else []
        metrics = {
            "pool/size": len(records.pool),
            "pool/pass": known.deck.passes,
            "pool/left": len(known.deck.left),
        }
        if section.lifecycle:
            metrics["pool/dropped"] = len(known.dropped)
        return Settled(retired, metrics)


def _drop(section: ConfigDict, records: Records, live: Sequence[Environment]) -> list[Archived]:
    """Takes environments that teach nothing out of the pool, and counts the plays of the others."""
    known = records.curriculum
    for environment in live:
        known.tallies.setdefault(environment.name, Tally()).add(environment.windows[-1])
    out = judged(known.tallies, section.lifecycle_plays, section.lifecycle_band)
    known.dropped |= out
    known.deck.discard(out)
    retired = [Archived.of(e, out[e.name]) for e in records.pool if e.name in out]
    records.pool = [e for e in records.pool if e.name not in out]
    if not records.pool:
        low, high = section.lifecycle_band
        easy = sum(mean > high for mean in known.dropped.values())
        raise PoolError(
            f"curriculum.lifecycle: no environment is left after step {records.step + 1}; of "
            f"{len(known.dropped)}, {easy} had a mean return above {high} and "
            f"{len(known.dropped) - easy} below {low} over {section.lifecycle_plays} plays or more"
        )
    return retired


class Folder(Pool):
    """The environments of a folder, drawn likewise. Nobody designs."""

    roles = ("agent",)

    def begin(self, rooms: Rooms) -> Records:
        usable = _checked(rooms, *_read(rooms.config))
        words = rooms.config.hints.max_words
        pool = [
            _environment(each, each.name, 0, 0, cut_words(each.hint, words)) for each in usable
        ]
        wanted = rooms.config.curriculum.num_envs
        if len(pool) < wanted:
            raise PoolError(
                f"curriculum.folder={rooms.config.curriculum.folder}: {len(pool)} environments can "
                f"be used; expected at least curriculum.num_envs={wanted}"
            )
        return Records(pool=pool)


class Adaptive:
    """Fixed environments at levels of difficulty that a controller chooses. Nobody designs."""

    roles = ("agent",)

    def begin(self, rooms: Rooms) -> Records:
        config = rooms.config
        if config.curriculum.folder:
            found, rejections = _read(config)
        else:
            found, rejections = seed_environments(config.seed, config.curriculum.domain), {}
        usable = _checked(rooms, found, rejections, lenient=True)
        if not usable:
            raise PoolError("curriculum.source=adaptive: no environment can be used")
        return Records(curriculum=CurriculumRecords(graded=usable))

    def lesson(self, rooms: Rooms, state: RunState, progress: Progress) -> Lesson:
        config, records = rooms.config, state.records
        known, step = records.curriculum, records.step
        graded = {each.name: each for each in known.graded}
        picks = _controller(config.curriculum.adaptive, known.graded).picks(
            known.standings, config.curriculum.num_envs,
            seeding.generator(config.seed, "picks", step),
        )  # fmt: skip
        return Lesson([], [
            _environment(graded[pick.name], f"{step:05d}-{slot:02d}", step, pick.level)
            for slot, pick in enumerate(picks)
        ])  # fmt: skip

    def settle(self, rooms: Rooms, records: Records, live: Sequence[Environment]) -> Settled:
        section, known = rooms.config.curriculum.adaptive, records.curriculum
        enough = section.success - ROUNDING
        played = [
            (Pick(each.family, each.knob), [value >= enough for value in each.windows[-1]])
            for each in live
        ]
        _controller(section, known.graded).observe(known.standings, played)
        levels, everything = [each.knob for each in live], [w for _, won in played for w in won]
        metrics = {
            "pool/size": len(known.graded),
            "adaptive/level": statistics.mean(levels),
            "adaptive/top_level": max(levels),
            "adaptive/accuracy": statistics.mean(everything),
        }
        return Settled([], {name: value for name, value in metrics.items() if value is not None})


SOURCES: dict[str, type[Source]] = {
    "designer": Designed,
    "pool": Pool,
    "folder": Folder,
    "adaptive": Adaptive,
}


def source_name(section: ConfigDict) -> str:
    """Of the source that `curriculum` asks for, which `fixed_pool` alone does for a pool."""
    return "pool" if section.source == "designer" and section.fixed_pool else section.source


def open_source(config: ConfigDict) -> Source:
    return SOURCES[source_name(config.curriculum)]()


def _controller(section: ConfigDict, graded: Sequence[Graded]) -> Controller:
    limits = {each.name: each.limit for each in graded}
    return pick(section, CONTROLLERS[section.controller], limits=limits)


def _environment(
    graded: Graded, name: str, born: int, level: int, hint: str = ""
) -> Environment:
    return Environment(
        name, graded.skill, None, "", born, Trajectory(), source=graded.source(level),
        hint=hint, shareable=graded.shareable, knob=level, family=graded.name,
    )  # fmt: skip


def _read(config: ConfigDict) -> tuple[list[Graded], Rejections]:
    folder = config.curriculum.folder
    try:
        return read_folder(pathlib.Path(folder))
    except FolderError as error:
        raise PoolError(f"curriculum.folder={folder}: {error}") from error


def _checked(
    rooms: Rooms, found: Sequence[Graded], rejections: Rejections, lenient: bool = False
) -> list[Graded]:
    """Those that the sandbox accepts at their easiest level; the others are named.

    Args:
        lenient: rules about difficulty reject nobody, and not only who writes in another dialect.
    """
    prints = {each.name: zlib.crc32(msgspec.json.encode(each)) for each in found}
    rooms.hosts.agree("curriculum.folder", prints)
    usable, rejections = [], dict(rejections)

    def validated(share: list[Graded]) -> list[Environment]:
        drafts = [_environment(each, each.name, 0, 0) for each in share]
        validate(rooms.pool, drafts, rooms.config.agent.max_turns)
        return drafts

    drafts = rooms.hosts.spread("fixed environments", validated, found, DESIGNS)
    for each, draft in zip(found, drafts, strict=True):
        easy = draft.stage in ABOUT_DIFFICULTY and (lenient or each.dialect != "contract")
        if draft.accepted or easy:
            each.shareable = draft.shareable and draft.accepted
            usable.append(each)
        else:
            rejections[each.name] = f"{draft.stage}: {draft.reason}"
    if rejections:
        print(f"{len(rejections)} of {len(usable) + len(rejections)} environments rejected:")
        for name, reason in sorted(rejections.items()):
            print(f"  {name}: {reason}")
    return usable
