"""A skill's moving averages against numbers worked out by hand."""

import numpy as np
import pytest

from spade_jax.rl import SkillAverages, updated_averages


def windows(*returns):
    return [np.asarray(values, float) for values in returns]


def test_the_first_window_of_a_skill_starts_both_averages_at_its_mean():
    after = updated_averages({}, {"a": windows([1, 0], [1, 1])}, 0.98, 0.85)
    assert after == {"a": SkillAverages(0.75, 0.75)}


def test_a_later_window_moves_both_by_their_weights_of_the_new_value():
    before = {"a": SkillAverages(0.5, 0.2), "b": SkillAverages(0.1, 0.3)}
    # new value (1 + 0 + 1 + 1) / 4, over plays, not over environments
    after = updated_averages(before, {"a": windows([1], [0, 1, 1])}, 0.98, 0.85)
    assert after["a"].fast == pytest.approx(0.98 * 0.75 + 0.02 * 0.5)
    assert after["a"].slow == pytest.approx(0.85 * 0.75 + 0.15 * 0.2)
    assert after["b"] == before["b"]
