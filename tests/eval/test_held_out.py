"""The held-out suites: balance, solvability and what training must not share with them."""

from collections import Counter

import numpy as np
import pytest

from spade_jax.envs.library import GAMES, SeedEnvironment, expert_episode, knob_of
from spade_jax.eval.held_out import held_out
from spade_jax.eval.held_out.suite import KNOBS, entries

both_splits = pytest.mark.parametrize("split", ["dev", "test"])


def training_pairs():
    return {
        (name, mechanic.rule, mechanic.constant)
        for name, family in GAMES.families.items()
        for mechanic in family.mechanics
    }


def held_out_pairs(split):
    return {(family.name, m.rule, m.constant) for family, _, m, _ in entries(split)}


@both_splits
def test_four_levels_and_two_modes_for_every_family(split):
    suite = held_out(split)
    assert {env.knob for env in suite} == set(KNOBS) == {6, 13, 22, 36}
    assert set(Counter((env.family, env.level) for env in suite).values()) == {2}
    assert len({env.mode for env in suite if env.family == "search"}) == 2
    assert len({env.name for env in suite}) == len(suite) == 72
    assert all(knob_of(env.source) == env.knob == KNOBS[env.level - 1] for env in suite)


@both_splits
def test_modes_of_a_family_and_level_differ_in_nothing_else(split):
    suite = held_out(split)
    for first, second in zip(suite[::2], suite[1::2], strict=True):
        assert (first.family, first.level, first.seen) == (second.family, second.level, second.seen)
        assert first.mode != second.mode and first.source != second.source
        names = [[x for x in env.source.splitlines() if "NAME =" in x] for env in (first, second)]
        assert names[0] == names[1]


@both_splits
def test_training_shares_no_rule_and_constant(split):
    assert not held_out_pairs(split) & training_pairs()


def test_dev_and_test_share_no_rule_and_constant_and_no_noun():
    assert not held_out_pairs("dev") & held_out_pairs("test")
    nouns = [
        {env.source.split('NAME = "')[1].split('"')[0] for env in held_out(split)}
        for split in ("dev", "test")
    ]
    assert not nouns[0] & nouns[1]


@both_splits
def test_unseen_families_are_unknown_to_training_and_to_the_other_split(split):
    unseen = {env.family for env in held_out(split) if not env.seen}
    other = {env.family for env in held_out("test" if split == "dev" else "dev") if not env.seen}
    assert len(unseen) >= 2
    assert not unseen & (set(GAMES.families) | other)
    assert {env.family for env in held_out(split) if env.seen} <= set(GAMES.families)


@both_splits
def test_every_family_is_named_after_several_things(split):
    nouns = {}
    for env in held_out(split):
        nouns.setdefault(env.family, set()).add(env.source.split('NAME = "')[1].split('"')[0])
    assert min(map(len, nouns.values())) > 1


@both_splits
def test_no_held_out_source_is_in_the_training_space(split):
    for env in held_out(split):
        if env.seen:
            family = GAMES.families[env.family]
            noun = env.source.split('NAME = "')[1].split('"')[0]
            sources = {
                family.source(mechanic, env.knob, noun) for mechanic in family.mechanics
            }
            assert env.source not in sources


@both_splits
def test_an_expert_can_do_without_the_hint_but_saves_turns_with_it(split):
    rng = np.random.default_rng(1)
    wins = {True: [], False: []}
    turns = {True: [], False: []}
    for env, (family, _, mechanic, _) in zip(held_out(split), entries(split), strict=True):
        seed_env = SeedEnvironment(
            env.family, family.skill, env.knob, "", env.source, env.hint, mechanic
        )
        for hinted in (True, False):
            played = [expert_episode(seed_env, s, hinted, 0.0, rng, family) for s in range(20)]
            wins[hinted].append(np.mean([episode.final_return for episode in played]))
            turns[hinted].append(np.mean([len(episode.turns) for episode in played]))
    assert min(wins[True]) > 0.6
    assert 0.85 < np.mean(wins[False]) < np.mean(wins[True])  # what the gap asks for can be learnt
    assert np.mean(turns[True]) < np.mean(turns[False]) - 0.4


@both_splits
def test_hints_are_short_and_name_the_reply_format(split):
    for env in held_out(split):
        assert len(env.hint.split()) <= 25 and r"\boxed{" in env.hint


def test_unknown_split_is_an_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match="'dev' or 'test'"):
        held_out("train")
