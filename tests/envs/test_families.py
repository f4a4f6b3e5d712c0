"""What holds of every family of the seed library, whatever its domain."""

import numpy as np
import pytest

from spade_jax.envs.library import DOMAINS, knob_of
from spade_jax.envs.library.expert import environment_class
from tests.envs.library import KNOBS, play

FAMILIES = {name: family for d in DOMAINS.values() for name, family in d.families.items()}
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


@every_family
def test_turn_budget_is_capped_by_the_callers(family):
    env = family.sample(np.random.default_rng(3), 6)
    game = environment_class(env.source)(max_turns=2)
    game.reset(0)
    assert [game.step("")[3] for _ in range(2)] == [False, True]


@every_family
def test_hint_saves_turns_or_wins_more(family):
    hinted, hinted_turns = play(family, 13, with_hint=True)
    plain, plain_turns = play(family, 13, with_hint=False)
    assert hinted >= plain
    assert hinted - plain > 0.1 or plain_turns - hinted_turns > 0.25


@every_family
def test_knob_is_read_back_from_the_source(family):
    rng = np.random.default_rng(4)
    for knob in KNOBS:
        env = family.sample(rng, knob)
        assert knob_of(env.source) == env.knob == knob


@every_family
def test_sources_differ_in_constants_and_nouns(family):
    rng = np.random.default_rng(5)
    drawn = [family.sample(rng) for _ in range(120)]
    assert len({env.mechanic for env in drawn}) >= min(3, len(family.mechanics))
    assert len({env.source for env in drawn}) > 60
