from collections import Counter

import msgspec
import numpy as np
import pytest

from spade_jax.designer.memory import Memory, MemorySettings, Record


def record(number, win_rate=0.5, regret=0.1, skill="logic", **changes):
    """Sources of different numbers share no run of four tokens, apart from one in all."""
    words = " ".join(f"word{number}x{i}" for i in range(12))
    values = {"source": f"class Env{number}: {words}", "skill": skill, "win_rate": win_rate,
              "regret": regret, "step": number}
    return Record(**{**values, **changes})


def filled(records, **settings):
    memory = Memory(MemorySettings(**settings))
    for item in records:
        memory.add(item)
    return memory


def rng(seed=0):
    return np.random.default_rng(seed)


def steps(records):
    return [item.step for item in records]


def drawn(memory, draws=300, skill="logic"):
    """Steps of every positive that ever comes up."""
    generator = rng()
    return {r.step for _ in range(draws) for r in memory.select(skill, generator).positives}


def test_the_oldest_record_goes_first_at_the_size_limit():
    assert steps(filled([record(i) for i in range(5)], size=3).records) == [2, 3, 4]


def test_the_paper_keeps_two_hundred_records_of_two_thousand_characters():
    memory = filled([record(i, source=f"name{i} " * 1000) for i in range(205)])
    assert len(memory) == 200
    assert {len(r.source) for r in memory.records} == {2000}


def test_positives_are_drawn_from_the_ten_highest_by_regret():
    memory = filled([record(i, regret=i / 100) for i in range(15)])
    assert drawn(memory) == set(range(5, 15))


def test_three_times_the_count_is_the_pool_once_that_exceeds_ten():
    memory = filled([record(i, regret=i / 100) for i in range(20)], positives=4)
    assert drawn(memory) == set(range(8, 20))


def test_positives_lie_in_the_band_with_both_ends_included():
    rates = [0.0, 0.1, 0.149, 0.15, 0.5, 0.85, 0.851, 0.9, 1.0]
    memory = filled([record(i, win_rate=rate) for i, rate in enumerate(rates)])
    assert drawn(memory) == {3, 4, 5}


def test_negatives_are_beyond_the_thresholds_and_say_which():
    rates = {0: 0.0, 1: 0.09, 2: 0.1, 3: 0.5, 4: 0.9, 5: 0.96, 6: 1.0}
    memory = filled([record(i, win_rate=rate) for i, rate in rates.items()], negatives=10)
    negatives = memory.select("logic", rng()).negatives
    too_easy = {item.step: easy for item, easy in negatives}
    assert too_easy == {0: False, 1: False, 5: True, 6: True}


def test_the_default_selection_is_two_positives_and_one_negative_without_repetition():
    records = [record(i) for i in range(6)] + [record(i, win_rate=1.0) for i in range(6, 9)]
    memory = filled(records)
    for seed in range(20):
        selection = memory.select("logic", rng(seed))
        assert len(set(steps(selection.positives))) == 2
        assert len(selection.negatives) == 1


def test_examples_come_from_the_asked_skill_only():
    memory = filled([record(i, skill="logic" if i % 2 else "causal") for i in range(8)])
    assert drawn(memory, skill="causal") == {0, 2, 4, 6}
    assert memory.select("spatial", rng()).positives == ()


def test_recent_and_top_draw_from_the_best_of_the_newest_of_the_skill():
    regrets = [0.9, 0.8, 0.1, 0.5, 0.2, 0.4, 0.3]
    other = [record(100 + i, regret=1.0, skill="causal") for i in range(5)]
    memory = filled([record(i, regret=r) for i, r in enumerate(regrets)] + other,
                    recent=5, top=3)
    assert drawn(memory) == {3, 5, 6}


def test_of_equal_regret_the_newest_are_candidates():
    assert drawn(filled([record(i) for i in range(5)], top=2)) == {3, 4}


def test_the_same_generator_gives_the_same_selection_and_others_differ():
    memory = filled([record(i) for i in range(10)])
    assert memory.select("logic", rng(1)) == memory.select("logic", rng(1))
    assert len({memory.select("logic", rng(seed)).positives for seed in range(20)}) > 5


def test_the_copies_of_a_program_take_one_place_with_the_newest_measurement():
    source = "class LiftEnv:\n    N = 5\n" + record(0).source
    memory = filled([record(1)])
    assert memory.add(record(2, source=source, win_rate=0.4))
    for step in range(3, 10):
        copy = source.replace("N = 5", f"N = {step}  # wider")
        assert not memory.add(record(step, source=copy, win_rate=0.6))
    assert [(r.step, r.win_rate) for r in memory.records] == [(1, 0.5), (9, 0.6)]


def test_another_knob_or_skill_is_no_duplicate():
    source = record(0).source
    memory = filled([
        record(1, source=source, knob=3),
        record(2, source=source, knob=4),
        record(3, source=source, knob=4, skill="causal"),
    ])
    assert len(memory) == 3


def test_duplicate_above_one_keeps_every_copy():
    assert len(filled([record(1)] * 4, duplicate=1.1)) == 4


def test_a_restored_memory_selects_like_the_original():
    memory = filled([record(i, knob=i, family="lift", document_id="d") for i in range(9)])
    restored = Memory.from_json(memory.to_json(), MemorySettings())
    assert restored.records == memory.records
    assert restored.select("logic", rng(5)) == memory.select("logic", rng(5))
    assert not restored.add(record(4, knob=4))


def test_restoring_into_a_smaller_memory_keeps_the_newest():
    text = filled([record(i) for i in range(9)]).to_json()
    assert steps(Memory.from_json(text, MemorySettings(size=2)).records) == [7, 8]


def test_the_empty_text_is_a_memory_not_yet_begun():
    assert len(Memory.from_json("", MemorySettings())) == 0


def test_text_that_is_not_a_memory_is_refused():
    with pytest.raises(msgspec.DecodeError):
        Memory.from_json('[{"source": "x"}]', MemorySettings())


@pytest.mark.parametrize("changes", [
    {"win_rate": 1.1}, {"win_rate": -0.1}, {"win_rate": float("nan")}, {"regret": float("inf")},
])
def test_impossible_measurements_are_refused(changes):
    with pytest.raises(ValueError, match="win rate"):
        filled([record(0, **changes)])


def test_coverage_counts_what_the_records_span():
    memory = filled([
        record(0, family="lift", knob=3, win_rate=0.95),
        record(1, family="lift", knob=9),
        record(2, family="grid", knob=9, skill="causal"),
        record(3, family="grid", win_rate=0.05),
        record(4, win_rate=0.12),
    ])
    coverage = memory.coverage()
    lengths = sorted(len(r.source) for r in memory.records)
    assert coverage.pop("effective_families") == pytest.approx(2.0)
    assert coverage == {"records": 5, "skills": 2, "positive": 2, "negative": 2, "families": 2,
                        "knobs": 2, "knob_median": 9, "knob_max": 9, "length_median": lengths[2]}


def test_coverage_measures_whole_sources_though_the_memory_keeps_their_beginning():
    memory = filled([record(0, source="name " * 500, length=2500)], snippet=100)
    assert memory.coverage()["length_median"] == 2500


def test_coverage_counts_tools_and_behaviours_where_there_are_any():
    coverage = filled([
        record(0, tools=3, behaviour="a1"),
        record(1, tools=5, behaviour="b2"),
        record(2, tools=5, behaviour="a1"),
        record(3),
    ]).coverage()
    assert (coverage["tools_median"], coverage["tool_counts"]) == (4, 3)
    assert coverage["behaviours"] == 2


@pytest.mark.parametrize(
    "rates,aim", [([0.9, 0.6], "harder"), ([0.6, 0.6], "same"), ([0.4], "same"), ([0.2], "easier")]
)
def test_the_agent_s_level_at_a_skill_says_what_to_aim_at(rates, aim):
    memory = filled([record(i, win_rate=rate) for i, rate in enumerate(rates)])
    memory.add(record(9, win_rate=0.0, skill="causal"))
    found = memory.difficulty("logic", (0.4, 0.6))
    assert found.aim == aim
    assert found.win_rate == pytest.approx(sum(rates) / len(rates))


def test_the_agent_s_level_is_that_of_the_newest_records():
    memory = filled([record(i, win_rate=float(i >= 5)) for i in range(25)])
    assert memory.difficulty("logic", (0.4, 0.6)) == (1.0, "harder")
    assert memory.difficulty("spatial", (0.4, 0.6)) is None


def test_one_family_alone_counts_as_one_effective_family():
    families = ["lift"] * 3
    memory = filled([record(i, family=f) for i, f in enumerate(families)])
    assert memory.coverage()["effective_families"] == pytest.approx(1.0)


def test_an_empty_memory_selects_nothing():
    memory = Memory(MemorySettings())
    selection = memory.select("logic", rng())
    assert (selection.positives, selection.negatives) == ((), ())
    assert memory.coverage() == {"records": 0, "skills": 0}


def test_every_candidate_is_drawn_about_equally_often():
    memory = filled([record(i, regret=i / 100) for i in range(5)], positives=1)
    generator = rng()
    counts = Counter(memory.select("logic", generator).positives[0].step for _ in range(1000))
    assert all(140 < counts[i] < 260 for i in range(5))
