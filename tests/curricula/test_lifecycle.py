"""Environments leave a persistent pool when their mean return leaves the band."""

from spade_jax.curricula import Tally, judged

BAND = (0.1, 0.9)


def tally(*returns):
    made = Tally()
    made.add(returns)
    return made


def test_who_leaves_the_band_is_named_with_its_mean():
    tallies = {
        "easy": tally(1, 1, 1, 1),
        "hard": tally(0, 0, 0, 0.2),
        "edge": tally(0.9, 0.9, 0.9, 0.9),
        "good": tally(0, 1, 0, 1),
    }
    assert judged(tallies, 4, BAND) == {"easy": 1.0, "hard": 0.05}


def test_nobody_is_judged_by_a_few_plays():
    tallies = {"hard": tally(0, 0, 0)}
    assert judged(tallies, 4, BAND) == {} and tallies["hard"].plays == 3
    tallies["hard"].add([0])
    assert judged(tallies, 4, BAND) == {"hard": 0.0}


def test_the_count_begins_anew_so_that_the_mean_is_one_of_recent_plays():
    tallies = {"mastered": tally(0, 0, 1, 1)}
    assert judged(tallies, 4, BAND) == {} and tallies == {}
    tallies["mastered"] = tally(1, 1, 1, 1)
    assert judged(tallies, 4, BAND) == {"mastered": 1.0}
