"""Pools are drawn in shuffled passes."""

from collections import Counter

import msgspec
import pytest

from spade_jax import seeding
from spade_jax.curricula import Deck

NAMES = [f"p{k}" for k in range(10)]


def shuffled(turn, names=NAMES):
    order = seeding.generator(0, "pool", turn).permutation(len(names))
    return [names[index] for index in order]


def test_a_pool_is_exhausted_before_an_environment_returns():
    deck = Deck()
    drawn = [deck.draw(NAMES, 5, 0) for _ in range(4)]
    assert drawn[0] + drawn[1] == shuffled(0) and drawn[2] + drawn[3] == shuffled(1)
    assert deck.passes == 2 and deck.left == []


@pytest.mark.parametrize("count", [3, 4, 7, 9, 10])
def test_nobody_is_ever_drawn_more_than_once_more_than_another(count):
    deck, drawn = Deck(), Counter(dict.fromkeys(NAMES, 0))
    for _ in range(200):
        names = deck.draw(NAMES, count, 0)
        assert len(set(names)) == count
        drawn.update(names)
        assert max(drawn.values()) - min(drawn.values()) <= 1


def test_what_a_draw_has_already_is_the_first_of_the_next_pass():
    deck = Deck()
    first, second = shuffled(0), shuffled(1)
    assert deck.draw(NAMES, 8, 0) == first[:8]
    new = [name for name in second if name not in first[8:]][:6]
    assert deck.draw(NAMES, 8, 0) == first[8:] + new
    before = second[: second.index(new[-1]) + 1]
    back = [name for name in before if name in first[8:]]
    assert deck.left == back + second[len(before) :]


def test_a_deck_goes_on_after_a_restart():
    deck = Deck()
    deck.draw(NAMES, 4, 0)
    again = msgspec.json.decode(msgspec.json.encode(deck), type=Deck)
    assert again.draw(NAMES, 4, 0) == deck.draw(NAMES, 4, 0) and again == deck


def test_what_is_discarded_is_not_drawn_and_a_small_pool_is_drawn_whole():
    deck, left = Deck(), NAMES[:3]
    deck.draw(NAMES, 4, 0)
    deck.discard(set(NAMES) - set(left))
    assert set(deck.left) <= set(left)
    assert all(sorted(deck.draw(left, 4, 0)) == left for _ in range(3))


def test_other_seeds_give_other_orders():
    assert Deck().draw(NAMES, 10, 0) != Deck().draw(NAMES, 10, 1)
