"""Where designs lie, against numbers worked out by hand."""

import math

import pytest

from spade_jax.designer import Environment, Record, coverage, novelty, repeat_share
from spade_jax.designer.coverage import cell
from spade_jax.rollout import Trajectory


def environment(source="x" * 100, skill="spatial reasoning", **more):
    return Environment("e", skill, None, source, 0, Trajectory(), source=source, **more)


def record(knob, family="lift", skill="spatial reasoning", length=100):
    return Record("class AEnv: pass", skill, 0.5, 0.1, 0, knob=knob, family=family, length=length)


def test_repetition_is_the_share_of_recent_records_with_the_same_family_and_knob():
    new = environment(knob=20, family="lift")
    known = [record(20), record(22), record(23), record(20, "grid"), record(20, skill="other")]
    assert repeat_share(new, known, 20) == pytest.approx(2 / 4)
    assert repeat_share(new, known, 2) == 0.0
    assert repeat_share(new, [], 20) == 0.0


def test_knobs_and_lengths_are_binned_by_powers_of_two():
    assert cell("lift", 4, 100) == cell("lift", 7, 127) != cell("lift", 8, 127)
    assert cell("lift", 4, 127) != cell("lift", 4, 128)
    assert cell(None, None, 100) != cell(None, 0, 100)


def test_novelty_is_the_share_of_recent_records_in_other_cells():
    new = environment(knob=5, family="lift")
    known = [record(4), record(7), record(8), record(4, "grid"), record(4, length=128),
             record(5, skill="other")]  # fmt: skip
    assert novelty(new, known, 20) == pytest.approx(1 - 2 / 5)
    assert novelty(new, known, 2) == 1.0  # of the skill's newest two, none is alike
    assert novelty(new, [record(5, skill="other")], 20) == 1.0
    assert novelty(new, [record(6)], 20) == 0.0


def test_coverage_is_the_entropy_over_each_axis():
    known = [record(4), record(5), record(9, "grid"), record(9, "grid", length=300)]
    found = coverage(known)
    assert found["family_entropy"] == pytest.approx(math.log(2))
    assert found["knob_entropy"] == pytest.approx(math.log(2))
    quarter = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert found["length_entropy"] == pytest.approx(quarter)
    assert found["cell_entropy"] == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))
    assert coverage([]) == {}
