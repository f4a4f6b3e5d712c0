"""Every reward against numbers worked out by hand."""

import numpy as np
import pytest

from spade_jax.rl import REWARDS, Plays, RewardSettings, SkillAverages
from spade_jax.rl.rewards import (
    blend,
    learning_potential,
    micro_lp,
    plateau,
    regret,
    regret_var,
    slope,
)


def plays(hint, *windows, averages=None):
    return Plays(np.asarray(hint, float), tuple(np.asarray(w, float) for w in windows), averages)


def test_regret_is_the_gap_of_the_means():
    # hint (1 + 1 + 0 + 1) / 4 = 0.75, without 0.25
    assert regret(plays([1, 1, 0, 1], [0, 1, 0, 0]), RewardSettings()) == pytest.approx(0.5)


def test_regret_has_a_floor_but_the_logged_gap_has_none():
    worse = plays([0, 0], [1, 0])
    assert regret(worse, RewardSettings()) == 0.0
    assert worse.gap == pytest.approx(-0.5)


def test_regret_compares_matched_weights_or_as_published_the_whole_window():
    both = plays([1, 1, 1, 0], [0, 0], [1, 1])  # R_hint 0.75, R_0 0, w 0.5
    assert regret(both, RewardSettings()) == pytest.approx(0.75) == both.gap
    assert regret(both, RewardSettings(matched_timing=False)) == pytest.approx(0.25)


def test_the_timing_of_a_window_of_one_step_does_not_matter():
    one = plays([1, 0, 1, 1], [0, 1, 0])
    for reward in (regret, regret_var):
        matched, whole = (reward(one, RewardSettings(matched_timing=m)) for m in (True, False))
        assert matched == whole


def test_learning_potential_is_the_distance_from_the_slow_average_of_the_skill():
    # w = (0 + 0 + 1 + 1 + 1) / 5 = 0.6
    window = ([0, 0], [1, 1, 1])
    below, above = SkillAverages(0.0, 0.85), SkillAverages(0.0, 0.25)
    assert learning_potential(plays([], *window, averages=below), None) == pytest.approx(0.25)
    assert learning_potential(plays([], *window, averages=above), None) == pytest.approx(0.35)
    with pytest.raises(ValueError, match="averages of the environment's skill"):
        learning_potential(plays([1], *window), RewardSettings())


@pytest.mark.parametrize(
    "wins,want",
    # of 20 plays; 1 inside [0.4, 0.6], then linear to 0 over 0.25
    [(8, 1), (10, 1), (12, 1), (13, 0.8), (15, 0.4), (17, 0), (20, 0), (5, 0.4), (3, 0)],
)
def test_plateau(wins, want):
    returns = [1] * wins + [0] * (20 - wins)
    assert plateau(plays([1], returns), RewardSettings()) == pytest.approx(want)


def test_blend_adds_clipped_regret_and_plateau():
    # gap 0.75 - 0.65 = 0.1 -> 0.1 / 0.15 * 0.4 = 0.26667; plateau(0.65) = 0.8 -> 0.48
    e = plays([1, 1, 1, 0], [1] * 13 + [0] * 7)
    assert blend(e, RewardSettings()) == pytest.approx(0.4 * (0.1 / 0.15) + 0.6 * 0.8)
    # gap 1 is clipped to 1; plateau(0) = 0
    assert blend(plays([1], [0]), RewardSettings()) == pytest.approx(0.4)


def test_blend_floor_clips_negative_regret_and_no_floor_does_not():
    e = plays([0], [1, 0])  # gap -0.5, plateau(0.5) = 1
    assert blend(e, RewardSettings()) == pytest.approx(0.6)
    assert blend(e, RewardSettings(regret_floor=False)) == pytest.approx(0.4 * -0.5 / 0.15 + 0.6)


def test_blend_frontier_and_progress_terms():
    # window mean 0.5, so no frontier penalty; per-step means 0.25 then 0.75: slope 0.5
    e = plays([1], [1, 0, 0, 0], [1, 1, 1, 0])
    s = RewardSettings(w_reg=0, w_plat=0, w_lp=0.2, w_front=1.0)
    assert blend(e, s) == pytest.approx(0.2 * 0.5 / 0.10)
    # window mean 0.9: (0.4)^2 / 0.08 = 2
    far = plays([1], [1] * 9 + [0])
    assert blend(far, RewardSettings(w_reg=0, w_plat=0, w_front=1.0)) == pytest.approx(-2.0)


def test_slope_weighs_steps_by_their_plays_and_skips_empty_ones():
    assert slope(plays([1], [1, 0])) == 0.0
    # steps 0, 1, 2 with means 0, 0.5, 1 and equal counts: 0.5 a step, over 2 steps
    assert slope(plays([1], [0, 0], [1, 0], [1, 1])) == pytest.approx(1.0)
    # the empty middle step counts in the span only
    assert slope(plays([1], [0, 0], [], [1, 1])) == pytest.approx(1.0)
    # weights (3, 1, 1) on (0, 0, 1): t_mean 0.6, r_mean 0.2, cov 1.4 * 0.8 - 3 * 0.6 * -0.2
    # - 0.4 * 0.2 = 1.4, var 3 * 0.36 + 0.16 + 1.96 = 3.2
    assert slope(plays([1], [0, 0, 0], [0], [1])) == pytest.approx(1.4 / 3.2 * 2)


def test_an_environment_without_plays_has_no_reward():
    with pytest.raises(ValueError, match="valid play"):
        regret(plays([], [1]), RewardSettings())


def test_the_registry_holds_the_functions_by_their_paper_names():
    assert REWARDS["regret"] is regret and REWARDS["blend"] is blend
    assert REWARDS["plateau"] is plateau


@pytest.mark.parametrize(
    "windows,want",
    [
        ([[1, 0, 0, 0], [1, 1, 1, 0]], 0.5),  # 0.75 - 0.25
        ([[0, 0], [1, 0], [1, 1], [1, 0]], 0.5),  # (1 + 0.5) / 2 - (0 + 0.5) / 2
        ([[0, 0], [1, 1], [1, 0]], 0.5),  # the middle step belongs to no half
        ([[0, 0], [], [1, 0]], 0.5),  # a step without valid plays is left out
        ([[1, 1], [0, 0]], 0.0),  # unlearning earns nothing
        ([[1, 0, 1]], 0.0),  # one step has no halves
    ],
)
def test_micro_lp_is_the_late_half_minus_the_early_half(windows, want):
    assert micro_lp(plays([1], *windows), RewardSettings()) == pytest.approx(want)


def test_regret_var_adds_a_bump_where_returns_vary_like_a_coin():
    # variance of 1, 0, 1, 0 over the window is 0.25: e^0; regret 1 - 0.5
    assert regret_var(plays([1], [1, 0], [1, 0]), RewardSettings()) == pytest.approx(1.5)
    # variance of 1, 0, 0, 0 is 3/16: (1/16)^2 / 0.02 = 0.1953125; regret 0.5 - 0.25
    want = 0.25 + np.exp(-0.1953125)
    assert regret_var(plays([1, 0], [1, 0, 0, 0]), RewardSettings()) == pytest.approx(want)
    # no variance: 0.0625 / 0.02 = 3.125
    assert regret_var(plays([1], [0, 0]), RewardSettings()) == pytest.approx(1 + np.exp(-3.125))
