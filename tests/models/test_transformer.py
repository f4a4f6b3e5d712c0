"""The transformer against itself: cache against packed rows, segments, impossible shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax import models, parallel


def test_cache_rows_in_any_slot_equal_the_packed_forward():
    config = models.preset("tiny", num_layers=2)
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    ids = jax.random.randint(jax.random.key(1), (3, 12), 0, config.vocab_size)
    positions = jnp.broadcast_to(jnp.arange(12), ids.shape)
    want = models.hidden_packed(config, params, ids, positions, jnp.ones_like(ids))
    cache, slots = models.init_cache(config, 6, 16), jnp.array([4, 0, 3])
    first, cache = models.hidden_cached(config, params, ids[:, :7], positions[:, :7], cache, slots)
    rest, cache = models.hidden_cached(config, params, ids[:, 7:], positions[:, 7:], cache, slots)
    np.testing.assert_allclose(jnp.concatenate([first, rest], 1), want, atol=1e-5)


def test_packed_segments_do_not_see_each_other():
    config = models.preset("tiny", num_layers=2)
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    ids = jax.random.randint(jax.random.key(1), (1, 10), 0, config.vocab_size)
    segments = jnp.array([[1] * 4 + [2] * 6])
    positions = jnp.array([[*range(4), *range(6)]])
    both = models.hidden_packed(config, params, ids, positions, segments)
    alone = models.hidden_packed(
        config, params, ids[:, 4:], positions[:, 4:], jnp.ones((1, 6), jnp.int32)
    )
    np.testing.assert_allclose(both[:, 4:], alone, atol=1e-5)


@pytest.mark.parametrize(
    "overrides,named",
    [
        ({"num_heads": 4, "num_kv_heads": 3}, "num_kv_heads"),
        ({"head_dim": 31}, "head_dim"),
        ({"num_experts": 4, "experts_per_token": 5}, "experts_per_token"),
        ({"layers": 3}, "layers"),
    ],
)
def test_impossible_shapes_are_refused_by_name(overrides, named):
    with pytest.raises(models.ModelError, match=named):
        models.preset("tiny", **overrides)
