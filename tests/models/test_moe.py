"""How a router spreads tokens, by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax.models import moe


def test_the_load_counts_real_tokens_only():
    logits = jnp.log(jnp.array([[[4.0, 2, 1, 1], [1, 1, 1, 1], [1, 1, 1, 97]]]))
    experts = jnp.array([[[0, 1], [0, 2], [3, 0]]])
    load = moe.load_of(logits, experts, jnp.array([[True, True, False]]))
    np.testing.assert_allclose(load.share, [1.0, 0.5, 0.5, 0.0])
    first = -(0.5 * np.log(0.5) + 0.25 * np.log(0.25) + 0.25 * np.log(0.125))
    np.testing.assert_allclose(load.entropy, (first + np.log(4)) / 2, rtol=1e-6)


def test_statistics_are_means_over_layers():
    share = jnp.array([[1.0, 0.5, 0.5, 0.0], [0.5, 0.5, 0.5, 0.5]])  # 2 of 4 experts a token
    found = moe.statistics(moe.Load(share, jnp.array([1.0, 0.5])))
    assert found == {
        "router_load_max": pytest.approx((1.0 * 4 / 2 + 1) / 2),
        "router_unused": pytest.approx(1 / 8),
        "router_entropy": pytest.approx(0.75),
    }


def test_padding_alone_has_no_load():
    load = moe.load_of(jnp.zeros((1, 2, 4)), jnp.zeros((1, 2, 2), int), jnp.zeros((1, 2), bool))
    assert not load.share.any() and not load.entropy
    assert all(np.isfinite(value) for value in moe.statistics(load).values())
