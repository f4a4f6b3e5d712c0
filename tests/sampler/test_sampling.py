"""Tokens come as often as the policy says, and log-probs are of the policy that was sampled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from spade_jax.sampler.sampling import sample, truncate

VOCAB, DRAWS = 150, 20_000  # not a multiple of the block that `sample` sums first
LOGITS = np.random.default_rng(0).normal(0, 2, VOCAB).astype(np.float32)


def drawn(logits, temperature, first_seed=0):
    seeds = jnp.arange(first_seed, first_seed + DRAWS, dtype=jnp.uint32)
    rows = jnp.broadcast_to(jnp.asarray(logits), (DRAWS, len(logits)))
    position, heat = jnp.full(DRAWS, 7), jnp.full(DRAWS, temperature, jnp.float32)
    token, logprob = jax.jit(sample)(rows, seeds, position, heat)
    return np.asarray(token), np.asarray(logprob)


def softmax(logits):
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def chi_square_p(tokens, policy):
    """p of the counts under the policy, rare tokens pooled."""
    order = np.argsort(policy)
    expected = policy[order] * len(tokens)
    seen = np.bincount(tokens, minlength=len(policy))[order]
    pool = np.cumsum(expected) // 25
    bins = [(seen[pool == b].sum(), expected[pool == b].sum()) for b in np.unique(pool)]
    seen, expected = np.array(bins).T
    return stats.chisquare(seen, expected).pvalue


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_frequencies_and_log_probs_are_those_of_the_policy(temperature):
    policy = softmax(LOGITS / temperature)
    tokens, logprobs = drawn(LOGITS, temperature)
    assert chi_square_p(tokens, policy) > 1e-3
    np.testing.assert_allclose(logprobs, np.log(policy[tokens]), atol=1e-4)
    assert chi_square_p(tokens, softmax(LOGITS / (temperature * 1.5))) < 1e-6  # it would notice


def test_greedy_takes_the_likeliest_at_the_log_prob_of_temperature_one():
    tokens, logprobs = drawn(LOGITS, 0.0)
    assert set(tokens) == {LOGITS.argmax()}
    np.testing.assert_allclose(logprobs, np.log(softmax(LOGITS).max()), atol=1e-5)


def test_an_impossible_token_never_comes():
    logits = np.full(VOCAB, -np.inf, np.float32)
    logits[[3, 70, 131]] = [0.0, 1.0, 2.0]
    tokens, _ = drawn(logits, 1.0)
    assert set(tokens) == {3, 70, 131}


def test_no_impossible_token_comes_out_of_a_large_vocabulary():
    rng = np.random.default_rng(1)
    logits = np.full((2000, 151_936), -np.inf, np.float32)
    allowed = rng.integers(0, 151_936, (2000, 6))
    np.put_along_axis(logits, allowed, rng.normal(0, 1, (2000, 6)).astype(np.float32), axis=1)
    seeds, ones = jnp.arange(2000, dtype=jnp.uint32), jnp.ones(2000)
    token, logprob = jax.jit(sample)(logits, seeds, jnp.arange(2000), ones)
    assert (np.asarray(token)[:, None] == allowed).any(axis=1).all()
    assert np.isfinite(logprob).all()


@pytest.mark.parametrize(
    ("top_k", "top_p", "temperature", "kept"),
    [
        (0, 1.0, 1.0, {0, 1, 2, 3}),
        (2, 1.0, 1.0, {0, 1}),
        (9, 1.0, 1.0, {0, 1, 2, 3}),
        (0, 0.79, 1.0, {0, 1}),
        (0, 0.81, 1.0, {0, 1, 2}),
        (0, 0.4, 1.0, {0}),
        (0, 0.79, 0.25, {0}),  # sharper: 0.5^4 / (0.5^4 + 0.3^4 + ...) = 0.88
        (2, 0.6, 1.0, {0}),  # top-p is of what top-k leaves: 0.5 / 0.8 = 0.625
        (1, 1.0, 0.0, {0}),
    ],
)
def test_truncation_keeps_the_hand_computed_set(top_k, top_p, temperature, kept):
    logits = jnp.log(jnp.asarray([[0.5, 0.3, 0.15, 0.05]]))
    left = truncate(
        logits, jnp.asarray([temperature]), jnp.asarray([top_k]), jnp.asarray([top_p])
    )
    assert set(np.flatnonzero(np.isfinite(left[0]))) == kept


def test_tokens_as_likely_as_the_last_one_stay():
    logits = jnp.log(jnp.asarray([[0.4, 0.2, 0.2, 0.2]]))
    left = truncate(logits, jnp.ones(1), jnp.asarray([2]), jnp.ones(1))
    assert np.isfinite(left[0]).all()


def test_truncated_frequencies_and_log_probs_are_those_of_the_truncated_policy():
    heat = jnp.asarray([0.8])
    top_k, top_p = jnp.asarray([12]), jnp.asarray([0.9])
    left = np.asarray(truncate(jnp.asarray(LOGITS)[None], heat, top_k, top_p))
    tokens, logprobs = drawn(left[0], 0.8)
    policy = softmax(left[0] / 0.8)
    assert 3 < np.count_nonzero(policy) <= 12
    assert chi_square_p(tokens, np.where(policy > 0, policy, 1e-12)) > 1e-3
    np.testing.assert_allclose(logprobs, np.log(policy[tokens]), atol=1e-4)
