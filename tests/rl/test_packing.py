"""Packing loses nothing, mixes nothing and weighs only what the model sampled."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_jax.rl import PackingError, pack, token_weights
from spade_jax.rollout import Trajectory


@st.composite
def trajectories(draw):
    row = Trajectory()
    for sampled in draw(st.lists(st.booleans(), min_size=2, max_size=6)):
        ids = draw(st.lists(st.integers(1, 99), min_size=1, max_size=5))
        if sampled and row.tokens:
            row.append_sampled(ids, [-0.1 * token for token in ids], 0)
        else:
            row.append_context(ids)
    return row


@settings(max_examples=60, deadline=None)
@given(st.lists(trajectories(), min_size=1, max_size=12), st.integers(1, 4))
def test_every_target_is_there_once_with_its_own_trajectory_s_numbers(rows, height):
    advantages = [float(index + 1) for index in range(len(rows))]
    weights = token_weights(rows, "trajectory")
    found: dict[float, list] = {}
    for batch in pack(rows, advantages, weights, height, 32):
        assert batch.tokens.shape == (height, 32)
        for r in range(height):
            for segment in range(1, batch.segment_ids[r].max() + 1):
                here = batch.segment_ids[r] == segment
                found[batch.advantages[r][here][0]] = [field[r][here] for field in batch]
        assert not batch.weights[batch.segment_ids == 0].any()
    for advantage, weight, row in zip(advantages, weights, rows, strict=True):
        if len(row.tokens) < 2:
            continue
        tokens, positions, _, targets, got, _, logprobs = found[advantage]
        assert tokens.tolist() == row.tokens[:-1]
        assert targets.tolist() == row.tokens[1:]
        assert positions.tolist() == list(range(len(row.tokens) - 1))
        np.testing.assert_allclose(got, np.asarray(row.mask[1:]) * weight, rtol=1e-6)
        np.testing.assert_allclose(logprobs, row.logprobs[1:], rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.lists(trajectories(), min_size=1, max_size=12))
def test_weights_of_the_sampled_tokens_sum_to_one(rows):
    if not any(row.num_sampled() for row in rows):
        return
    for aggregation in ("trajectory", "token"):
        weights = token_weights(rows, aggregation)
        total = sum(
            batch.weights.sum() for batch in pack(rows, [1.0] * len(rows), weights, 2, 32)
        )
        assert total == pytest.approx(1.0, rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(trajectories())
def test_the_mask_is_what_was_sampled_and_nothing_else(row):
    assert len(row.mask) == len(row.tokens) == len(row.logprobs)
    assert [logprob != 0.0 for logprob in row.logprobs] == [bool(mask) for mask in row.mask]


def test_trajectory_and_token_means_differ_as_they_should():
    short, long = Trajectory(), Trajectory()
    for row, count in ((short, 1), (long, 3)):
        row.append_context([1])
        row.append_sampled([2] * count, [-1.0] * count, 0)
    assert token_weights([short, long], "trajectory") == pytest.approx([1 / 2, 1 / 6])
    assert token_weights([short, long], "token") == pytest.approx([1 / 4, 1 / 4])


def test_an_episode_weighs_the_same_in_one_row_and_in_several():
    rows = [Trajectory() for _ in range(4)]
    for row, count in zip(rows, (2, 4, 3, 0), strict=True):
        row.append_context([1])
        row.append_sampled([2] * count, [-1.0] * count, 0)
    weights = token_weights(rows, "trajectory", [0, 0, 1, 2])
    assert weights == pytest.approx([1 / 12, 1 / 12, 1 / 6, 0])
    assert token_weights(rows, "token", [0, 0, 1, 2]) == pytest.approx([1 / 9] * 4)


def test_a_trajectory_longer_than_a_row_is_an_error():
    row = Trajectory()
    row.append_context(list(range(10)))
    with pytest.raises(PackingError, match="10 tokens, rows hold 9"):
        list(pack([row], [1.0], [1.0], 1, 8))


def test_sampled_tokens_need_their_logprobs():
    with pytest.raises(ValueError, match="2 sampled tokens but 1"):
        Trajectory().append_sampled([1, 2], [-0.5], 0)


def test_shuffled_rows_hold_the_same_trajectories_but_not_the_longest_first():
    rows = []
    for count in range(3, 23):
        rows.append(Trajectory())
        rows[-1].append_sampled([1] * count, [0.0] * count, 0)
    ones = [1.0] * len(rows)
    plain = list(pack(rows, ones, ones, 1, 24))
    mixed = list(pack(rows, ones, ones, 1, 24, shuffle=np.random.default_rng(0)))

    def held(batches):
        return [batch.segment_ids.astype(bool).sum() for batch in batches]

    assert sorted(held(mixed)) == sorted(held(plain)) and held(mixed) != held(plain)
