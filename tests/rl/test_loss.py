"""The token loss against numbers worked out by hand, and its gradient against a plain one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax.rl import LossSettings
from spade_jax.rl.loss import k3, policy_loss, supervised_loss
from spade_jax.rl.packing import empty


def batch(advantages, old, weights):
    rows = empty(1, len(advantages))
    rows.advantages[0], rows.logprobs[0], rows.weights[0] = advantages, old, weights
    return rows


def loss(logp, rows, **settings):
    logp = jnp.asarray([logp], jnp.float32)
    return policy_loss(logp, jnp.zeros_like(logp), None, rows, LossSettings(**settings))


def test_k3_is_zero_at_equality_and_positive_elsewhere():
    assert k3(jnp.float32(-1.0), jnp.float32(-1.0)) == 0
    np.testing.assert_allclose(k3(jnp.float32(-1.0), jnp.float32(0.0)), np.e - 2, rtol=1e-6)
    np.testing.assert_allclose(k3(jnp.float32(0.0), jnp.float32(-1.0)), 1 / np.e, rtol=1e-6)


def test_the_clip_is_asymmetric_and_only_bites_where_it_would_gain():
    ratio = np.array([1.5, 1.5, 0.5, 0.5])
    rows = batch([1, -1, 1, -1], np.zeros(4), [0.25] * 4)
    value, stats = loss(np.log(ratio), rows, old_logprobs="sampled")
    # gains: min(1.5, 1.28), min(-1.5, -1.28), min(0.5, 0.8), min(-0.5, -0.8)
    assert value == pytest.approx(-(1.28 - 1.5 + 0.5 - 0.8) / 4, rel=1e-5)
    assert stats["clip_fraction"] == pytest.approx(1.0)
    assert stats["ratio"] == pytest.approx(1.0)


def test_the_importance_weight_is_truncated_and_carries_no_gradient():
    rows = batch([1.0, 1.0], [np.log(0.1), np.log(0.4)], [0.5, 0.5])
    logp = np.log([0.5, 0.2])  # importance 5 -> 2, and 0.5
    value, stats = loss(logp, rows)
    assert value == pytest.approx(-(2.0 + 0.5) / 2, rel=1e-5)
    assert stats["importance_capped"] == pytest.approx(0.5)
    gradient = jax.grad(lambda x: loss(x, rows)[0])(jnp.asarray(logp, jnp.float32))
    np.testing.assert_allclose(gradient, [-2.0 / 2, -0.5 / 2], rtol=1e-5)


def test_on_policy_the_gradient_is_the_plain_policy_gradient():
    rows = batch([2.0, -1.0], [-0.3, -0.7], [0.5, 0.5])
    gradient = jax.grad(lambda x: loss(x, rows)[0])(jnp.asarray([-0.3, -0.7], jnp.float32))
    np.testing.assert_allclose(gradient, [-1.0, 0.5], rtol=1e-5)


def test_kl_and_entropy_enter_with_their_weights():
    rows = batch([0.0], [-1.0], [1.0])
    settings = LossSettings(kl=0.1, entropy=0.2)
    one = jnp.asarray([[-1.0]])
    value, stats = policy_loss(one, jnp.full_like(one, 0.7), jnp.zeros((1, 1)), rows, settings)
    assert value == pytest.approx(0.1 * (np.e - 2) - 0.2 * 0.7, rel=1e-5)
    assert stats["entropy"] == pytest.approx(0.7)
    assert stats["kl"] == pytest.approx(np.e - 2, rel=1e-5)


def test_tokens_of_weight_zero_change_nothing():
    rows = batch([1.0, 100.0], [-0.5, -9.0], [1.0, 0.0])
    gradient = jax.grad(lambda x: loss(x, rows)[0])(jnp.asarray([-0.5, -0.1], jnp.float32))
    assert gradient[1] == 0.0


def test_supervised_loss_is_the_weighted_negative_log_likelihood():
    rows = batch([0.0, 0.0], [0.0, 0.0], [0.25, 0.75])
    value, _ = supervised_loss(
        jnp.asarray([[-1.0, -2.0]]), jnp.zeros((1, 2)), None, rows, LossSettings()
    )
    assert value == pytest.approx(0.25 + 1.5)
