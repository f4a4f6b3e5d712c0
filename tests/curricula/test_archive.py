"""Retired environments: who is kept, and who is played again."""

import numpy as np

from spade_jax.curricula import Archived, draw_spread, keep_spread
from spade_jax.designer import Environment
from spade_jax.rollout import Trajectory


def archived(name, win_rate, latest=None):
    return Archived(name, "skill", "source", True, 0, win_rate, latest or win_rate)


def names(archive):
    return [each.name for each in archive]


def test_an_environment_is_archived_with_its_mean_over_all_windows():
    environment = Environment(
        "a", "optimization", "d1", "reply", 3, Trajectory(), source="class AEnv: pass",
        hint="do", shareable=True, hint_returns=[1.0], windows=[[1.0, 0.0], [], [1.0, 1.0]],
        baselines={"plain": 0.5},
    )  # fmt: skip
    kept = Archived.of(environment)
    assert (kept.win_rate, kept.latest, kept.born) == (0.75, 0.75, 3)
    again = kept.environment()
    assert (again.name, again.source, again.shareable) == ("a", "class AEnv: pass", True)
    assert again.baselines == {"plain": 0.5}
    assert again.windows == [] and again.hint == "" and again.trajectory.num_sampled() == 0
    assert Archived.of(environment, 0.95).win_rate == 0.95
    environment.windows = [[]]
    assert Archived.of(environment) is None


def test_a_full_archive_gives_up_the_oldest_of_the_most_common_difficulty():
    full = [archived("easy1", 0.95), archived("hard", 0.0), archived("easy2", 1.0)]
    assert names(keep_spread(full, [archived("mid", 0.5)], 3)) == ["hard", "easy2", "mid"]
    more = keep_spread(full, [archived("easy3", 0.9), archived("easy4", 0.99)], 3)
    assert names(more) == ["hard", "easy3", "easy4"]
    assert names(keep_spread(full, [], 3)) == names(full)


def test_the_draw_takes_one_from_each_part_of_the_range():
    archive = [archived(f"{k}", k / 12) for k in (7, 0, 11, 3, 5, 9, 1, 10, 2, 8, 4, 6)]
    seen = set()
    for seed in range(60):
        drawn = draw_spread(archive, 4, np.random.default_rng(seed))
        for part, each in enumerate(drawn):
            assert 3 * part <= int(each.name) < 3 * part + 3
        seen |= set(names(drawn))
    assert len(seen) == 12


def test_parts_go_by_the_latest_win_rate():
    archive = [archived("fell", 0.9, 0.1), archived("rose", 0.1, 0.9)]
    assert names(draw_spread(archive, 2, np.random.default_rng(0))) == ["fell", "rose"]


def test_a_small_archive_is_drawn_whole_and_an_empty_one_gives_nothing():
    assert names(draw_spread([archived("one", 0.5)], 3, np.random.default_rng(0))) == ["one"]
    assert draw_spread([], 3, np.random.default_rng(0)) == []
    assert draw_spread([archived("one", 0.5)], 0, np.random.default_rng(0)) == []
