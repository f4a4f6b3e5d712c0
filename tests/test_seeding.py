"""Seeds are functions of their labels."""

from spade_jax import seeding


def test_equal_labels_give_equal_seeds_and_others_give_others():
    assert seeding.derive(1, "play", 3) == seeding.derive(1, "play", 3)
    seeds = {seeding.derive(r, w, s) for r in range(4) for w in ("play", "eval") for s in range(50)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_generators_follow_the_same_labels():
    assert seeding.generator(1, "a").random() == seeding.generator(1, "a").random()
    assert seeding.generator(1, "a").random() != seeding.generator(1, "b").random()
