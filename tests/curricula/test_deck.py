"""Pools are drawn in shuffled passes."""

import msgspec

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


def test_a_draw_across_two_passes_repeats_nothing_and_leaves_the_turns_of_the_others():
    deck, flat = Deck(), shuffled(0) + shuffled(1) + shuffled(2)
    drawn = [deck.draw(NAMES, 4, 0) for _ in range(6)]
    assert all(len(set(names)) == 4 for names in drawn)
    for step, names in enumerate(drawn):
        expected = dict.fromkeys(flat[4 * step :])
        assert names == list(expected)[:4]
    assert deck.left == flat[24:30]


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
