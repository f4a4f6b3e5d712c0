"""Advantages against numbers worked out by hand."""

import numpy as np
import pytest

from spade_jax.rl import (
    DesignerAdvantageSettings,
    designer_advantages,
    group_advantages,
    moving_advantages,
    role_scale,
    varied,
    zero_variance_groups,
)


def test_group_advantages_are_centred_and_scaled_within_each_group():
    # group a: (1, 0, 0, 0): mean 0.25, std sqrt(0.1875); group b: (1, 1): no variance
    got = group_advantages([1, 0, 1, 0, 0, 1], ["a", "a", "b", "a", "a", "b"])
    std = np.sqrt(0.1875)
    np.testing.assert_allclose(got, [0.75 / std, -0.25 / std, 0, -0.25 / std, -0.25 / std, 0])


def test_group_advantages_without_normalisation_are_centred_only():
    np.testing.assert_allclose(group_advantages([1, 0], ["a", "a"], False), [0.5, -0.5])


def test_groups_do_not_mix():
    one = group_advantages([1, 0, 0], [0, 0, 0])
    two = group_advantages([1, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1])[:3]
    np.testing.assert_array_equal(one, two)


def test_zero_variance_groups_are_counted_as_a_share_of_groups():
    assert zero_variance_groups([1, 1, 0, 1, 0], ["a", "a", "b", "b", "c"]) == pytest.approx(2 / 3)


def test_plays_of_groups_without_variance_are_told_apart():
    assert varied([1, 1, 0, 1, 0, 1], ["a", "b", "c", "a", "b", "c"]) == [1, 2, 4, 5]
    assert varied([], []) == []


def test_designer_rewards_are_centred_within_each_skill_and_never_divided():
    got, _ = designer_advantages(
        [0.9, 0.3, 0.5], ["x", "x", "y"], {}, 2.0, DesignerAdvantageSettings()
    )
    np.testing.assert_allclose(got, [0.6, -0.6, 0.0])


def test_the_moving_baseline_is_the_one_before_this_update():
    settings = DesignerAdvantageSettings(baseline="moving", decay=0.8)
    before = {"x": 0.1, "z": 0.7}
    got, baselines = designer_advantages([0.9, 0.3], ["x", "x"], before, 1.0, settings)
    np.testing.assert_allclose(got, [0.8, 0.2])
    assert baselines == pytest.approx({"x": 0.8 * 0.1 + 0.2 * 0.6, "z": 0.7})


def test_a_moving_average_starts_at_the_first_mean_and_moves_after_use():
    # group a: mean 0.5 against 0.9; b is new with mean 0.75; c is not there
    got, after = moving_advantages([1, 0.5, 0, 1], list("abab"), {"a": 0.9, "c": 0.1}, 0.5)
    np.testing.assert_allclose(got, [0.1, -0.25, -0.9, 0.25])
    assert after == pytest.approx({"a": 0.7, "b": 0.75, "c": 0.1})


def test_a_skill_without_history_is_centred_on_its_own_mean():
    settings = DesignerAdvantageSettings(baseline="moving")
    got, baselines = designer_advantages([1.0, 0.0], ["x", "x"], {}, 1.0, settings)
    np.testing.assert_allclose(got, [0.5, -0.5])
    assert baselines["x"] == pytest.approx(0.5)


def test_negative_advantages_can_be_softened():
    settings = DesignerAdvantageSettings(negative_scale=0.25)
    got, _ = designer_advantages([1.0, 0.0], ["x", "x"], {}, 1.0, settings)
    np.testing.assert_allclose(got, [0.5, -0.125])


def test_role_scale_balances_frequencies_up_to_its_limit():
    assert role_scale(192, 24, 4, 50.0) == pytest.approx(32.0)
    assert role_scale(256, 16, 32, 50.0) == 50.0
