"""Which designs are asked for."""

from spade_jax import seeding
from spade_jax.designer import (
    Memory,
    MemorySettings,
    Record,
    active_skills,
    requests,
)
from spade_jax.grounding import Document


class Documents:
    def __init__(self):
        self.count = 0

    def next(self):
        self.count += 1
        return Document(f"d{self.count}", "text", {})


def seed_of(label):
    return seeding.derive(0, label)


def test_skill_windows_follow_each_other_round_robin():
    skills = ["a", "b", "c", "d"]
    windows = [active_skills(skills, 3, regeneration) for regeneration in range(4)]
    assert windows == [["a", "b", "c"], ["d", "a", "b"], ["c", "d", "a"], ["b", "c", "d"]]


def test_each_design_gets_its_own_document_and_seed():
    made = requests(["0-0", "0-1", "0-2"], ["a", "b"], Documents(), None, 1.0, seed_of)
    assert [request.document.id for request in made] == ["d1", "d2", "d3"]
    assert [request.skill for request in made] == ["a", "b", "a"]
    assert len({request.sample_seed for request in made}) == 3
    assert all(request.examples is None for request in made)


def test_without_a_corpus_there_is_no_document():
    (made,) = requests(["0-0"], ["a"], None, None, 1.0, seed_of)
    assert made.document is None


def test_memory_is_shown_to_its_share_of_designs_and_by_skill():
    memory = Memory(MemorySettings(positives=1), [Record("class AEnv: pass", "a", 0.5, 0.2, 0)])
    names = [f"0-{k}" for k in range(200)]
    made = requests(names, ["a", "b"], None, memory, 0.5, seed_of)
    shown = [request for request in made if request.examples is not None]
    assert 70 < len(shown) < 130
    assert all(bool(r.examples.positives) == (r.skill == "a") for r in shown)


def test_designs_are_told_the_level_of_their_skill_on_demand():
    memory = Memory(MemorySettings(), [Record("class AEnv: pass", "a", 0.9, 0.2, 0)])
    told = requests(["0-0", "0-1"], ["a", "b"], None, memory, 0.0, seed_of, (0.4, 0.6))
    assert [request.difficulty for request in told] == [(0.9, "harder"), None]
    assert all(request.examples is None for request in told)
    untold = requests(["0-0"], ["a"], None, memory, 0.0, seed_of)
    assert untold[0].difficulty is None and untold[0].sample_seed == told[0].sample_seed
    assert requests(["0-0"], ["a"], None, None, 0.0, seed_of, (0.4, 0.6))[0].difficulty is None


def test_the_draw_is_a_function_of_the_design_s_name():
    memory = Memory(MemorySettings(), [Record(f"class A{k}Env: pass", "a", 0.5, 0.2, 0, knob=k)
                                       for k in range(9)])  # fmt: skip
    one = requests(["7-3"], ["a"], None, memory, 1.0, seed_of)
    two = requests(["7-2", "7-3"], ["a"], None, memory, 1.0, seed_of)
    assert one[0].examples == two[1].examples and one[0].sample_seed == two[1].sample_seed
