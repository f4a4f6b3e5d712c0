"""docs/metrics.md knows every name that a run logs."""

from tests.metrics_docs import documented, undocumented


def test_names_and_families_of_names_are_told_from_others():
    known = ["agent/win_rate", "designer/reward/causal_inference", "sampler/agent/slot_use",
             "designer/entropy", "eval/dev/greedy/level_1", "time/play"]  # fmt: skip
    assert undocumented(["step", *known]) == set()
    unknown = ["agent/fame", "sampler/judge/slot_use", "designer/reward/a/b", "agent/win_rate/",
               "win_rate"]  # fmt: skip
    assert undocumented([*known, *unknown]) == set(unknown)


def test_no_name_is_documented_twice():
    names = documented()
    assert sorted(names) == sorted(set(names))
