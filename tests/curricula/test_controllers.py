"""Controllers of difficulty, with numbers worked out by hand."""

from collections import Counter

import msgspec
import numpy as np
import pytest

from spade_jax.curricula import LearningPotential, Pick, SlidingWindow, Standing

LIMITS = {"a": None, "b": 2}


def rng(seed=0):
    return np.random.default_rng(seed)


def wins(count, of):
    return [True] * count + [False] * (of - count)


def observed(controller, standings, *played):
    controller.observe(standings, played)
    return standings


class TestSlidingWindow:
    controller = SlidingWindow(LIMITS, width=4, attempts=10, promote=0.9)

    def test_a_level_is_added_when_nine_of_ten_attempts_at_the_top_succeed(self):
        standings = observed(self.controller, {}, (Pick("a", 0), wins(9, 10)))
        assert standings == {"a": Standing(level=1)}

    def test_eight_of_ten_are_too_few_and_the_count_begins_anew(self):
        standings = observed(self.controller, {}, (Pick("a", 0), wins(8, 10)))
        assert standings == {"a": Standing(level=0)}
        observed(self.controller, standings, (Pick("a", 0), wins(9, 9)))
        assert standings["a"] == Standing(0, attempts=9, successes=9)
        observed(self.controller, standings, (Pick("a", 0), wins(0, 1)))
        assert standings["a"] == Standing(level=1)

    def test_attempts_below_the_top_level_do_not_count(self):
        standings = observed(self.controller, {"a": Standing(level=3)}, (Pick("a", 2), wins(9, 10)))
        assert standings["a"] == Standing(level=3)

    def test_all_plays_of_a_step_count_before_it_is_judged(self):
        played = (Pick("a", 0), wins(10, 10)), (Pick("a", 0), wins(7, 10))
        assert observed(self.controller, {}, *played)["a"].level == 0  # 17 of 20

    def test_nobody_rises_above_the_hardest_level(self):
        standings = {"b": Standing(level=1)}
        observed(self.controller, standings, (Pick("b", 1), wins(10, 10)))
        assert standings["b"] == Standing(level=1)

    def test_picks_are_environments_at_random_and_levels_of_the_window(self):
        picks = self.controller.picks({"a": Standing(level=5)}, 400, rng())
        counts = Counter(picks)
        assert set(counts) == {Pick("a", level) for level in (2, 3, 4, 5)} | {Pick("b", 0)}
        assert 150 < counts[Pick("b", 0)] < 250
        assert all(25 < counts[Pick("a", level)] < 75 for level in (2, 3, 4, 5))

    def test_void_plays_leave_everything_as_it_is(self):
        assert observed(self.controller, {}, (Pick("a", 0), [])) == {"a": Standing()}


class TestLearningPotential:
    controller = LearningPotential(LIMITS, levels=3, fast=0.35, slow=0.15, greedy=0.5)

    def test_the_averages_begin_with_the_first_accuracy(self):
        standings = observed(self.controller, {}, (Pick("a", 1), wins(1, 4)))
        assert standings == {"a@1": Standing(fast=0.25, slow=0.25)}
        assert self.controller.potential(standings["a@1"]) == 0.0

    def test_a_jump_of_the_accuracy_gives_a_potential_that_dies_away(self):
        standings = observed(self.controller, {}, (Pick("a", 1), wins(0, 4)))
        observed(self.controller, standings, (Pick("a", 1), wins(4, 4)))
        assert standings["a@1"].fast == pytest.approx(0.35)
        assert standings["a@1"].slow == pytest.approx(0.15)
        observed(self.controller, standings, (Pick("a", 1), wins(4, 4)))
        assert standings["a@1"].fast == pytest.approx(0.5775)  # .35 + .35 * .65
        assert standings["a@1"].slow == pytest.approx(0.2775)  # .15 + .15 * .85
        for _ in range(60):
            observed(self.controller, standings, (Pick("a", 1), wins(4, 4)))
        assert self.controller.potential(standings["a@1"]) < 1e-3

    def test_all_plays_of_a_step_are_one_accuracy(self):
        played = (Pick("a", 0), wins(1, 2)), (Pick("a", 0), wins(0, 2)), (Pick("b", 1), [])
        standings = observed(self.controller, {}, *played)
        assert standings == {"a@0": Standing(fast=0.25, slow=0.25)}

    def test_half_of_the_picks_go_by_potential(self):
        standings = {"a@2": Standing(fast=0.9, slow=0.6), "b@0": Standing(fast=0.2, slow=0.3)}
        picks = self.controller.picks(standings, 800, rng())
        greedy = Counter(picks[:400])
        assert set(greedy) == {Pick("a", 2), Pick("b", 0)}
        assert 270 < greedy[Pick("a", 2)] < 330  # 3 of 4
        others = Counter(picks[400:])
        arms = {Pick("a", 0), Pick("a", 1), Pick("a", 2), Pick("b", 0), Pick("b", 1)}
        assert set(others) == arms and all(50 < count < 110 for count in others.values())

    def test_without_any_potential_every_pick_is_random(self):
        assert len(set(self.controller.picks({}, 200, rng()))) == 5


@pytest.mark.parametrize("controller", [SlidingWindow(LIMITS), LearningPotential(LIMITS)])
def test_picks_depend_on_the_generator_alone_and_standings_survive_json(controller):
    standings = observed(controller, {}, (Pick("a", 0), wins(3, 4)))
    text = msgspec.json.encode(standings)
    again = msgspec.json.decode(text, type=dict[str, Standing])
    assert again == standings
    assert controller.picks(again, 9, rng(3)) == controller.picks(standings, 9, rng(3))
