"""`benchmarks.waiting` with a tiny model: what it plays is what it says."""

import pytest

from benchmarks import waiting
from benchmarks.sampler_workload import ModelShape

TINY = ModelShape(1, 32, 2, 1, 16, 48, vocab=512)


@pytest.mark.parametrize("shared", [False, True])
def test_a_case_plays_its_turns_and_counts_its_waits(shared):
    case = waiting.Case(0.01, 4, slots=4, environments=2, plays=2, shared=shared, turns=2)
    row = waiting.measure(case, waiting.Engines(TINY))
    assert 4 <= row["turns"] <= 8
    assert 1 <= row["mean_tokens"] <= 12
    assert 0 < row["waited"] < row["seconds"]
    assert row["share"] == row["waited"] / row["seconds"]


def test_the_cases_have_names_of_their_own():
    assert len({case.name for case in waiting.CASES}) == len(waiting.CASES)
