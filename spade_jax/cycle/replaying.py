"""Retired environments, played again: they train the agent, and show what it forgets."""

from collections.abc import Sequence

from spade_jax import seeding, statistics
from spade_jax.curricula import Archived, draw_spread, keep_spread
from spade_jax.designer import Environment
from spade_jax.rooms import Rooms
from spade_jax.state import Records


def draw_retired(rooms: Rooms, records: Records) -> list[Environment]:
    """This step's `curriculum.replay_envs`, over the whole range of difficulty."""
    count = rooms.config.curriculum.replay_envs
    rng = seeding.generator(rooms.config.seed, "retired", records.step)
    return [each.environment() for each in draw_spread(records.curriculum.archive, count, rng)]


def retire(
    rooms: Rooms, records: Records, again: Sequence[Environment], retired: Sequence[Archived]
) -> statistics.Metrics:
    """Notes how the replayed ones went, and archives those whose last step this was.

    Returns:
        `replay/change` is the mean win rate now minus that at retirement: below 0, the agent has
        forgotten.
    """
    section, known = rooms.config.curriculum, records.curriculum
    if not section.replay_envs:
        return {}
    archived = {each.name: each for each in known.archive}
    changes, now = [], []
    for environment in again:
        old = archived[environment.name]
        old.baselines = environment.baselines
        if returns := environment.windows[-1]:
            old.latest = mean = statistics.mean(returns)
            now.append(mean)
            changes.append(mean - old.win_rate)
    known.archive = keep_spread(known.archive, retired, section.archive_size)
    metrics = {
        "replay/environments": len(again),
        "replay/archive": len(known.archive),
        "replay/win_rate": statistics.mean(now),
        "replay/change": statistics.mean(changes),
    }
    return {name: value for name, value in metrics.items() if value is not None}
