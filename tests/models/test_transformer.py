"""The transformer against itself: cache against packed rows, segments, impossible shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax import models, parallel


def read(config, params, tokens, lengths, cache, slots):
    """Reads tokens behind cache rows: hidden states and the cache, as one dispatch does it."""
    past = models.cache.take(cache, slots, int(max(lengths)))
    recent = models.init_cache(config, *tokens.shape, stacked=isinstance(cache, dict))
    hidden, recent = models.hidden_cached(config, params, tokens, lengths, past, recent)
    return hidden, models.cache.put(cache, slots, lengths, recent)


@pytest.mark.parametrize("stacked", [True, False])
def test_cache_rows_in_any_slot_equal_the_packed_forward(stacked):
    config = models.preset("tiny", num_layers=2)
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    ids = jax.random.randint(jax.random.key(1), (3, 12), 0, config.vocab_size)
    positions = jnp.broadcast_to(jnp.arange(12), ids.shape)
    want = models.hidden_packed(config, params, ids, positions, jnp.ones_like(ids))
    cache, slots = models.init_cache(config, 6, 16, stacked), jnp.array([4, 0, 3])
    params = params if stacked else models.unstack(params)
    first, cache = read(config, params, ids[:, :7], jnp.zeros(3, jnp.int32), cache, slots)
    rest, cache = read(config, params, ids[:, 7:], jnp.full(3, 7), cache, slots)
    np.testing.assert_allclose(jnp.concatenate([first, rest], 1), want, atol=1e-5)
    untouched = jnp.array([1, 2, 5])
    assert all(
        not leaf.any() for leaf in jax.tree.leaves(models.cache.take(cache, untouched, 16))
    )


def test_rows_beyond_the_cache_are_left_out_and_copies_are_equal():
    config = models.preset("tiny", num_layers=2)
    cache = models.init_cache(config, 3, 8)
    new = jax.tree.map(lambda leaf: leaf + 1.0, models.init_cache(config, 2, 2))
    cache = models.cache.put(cache, jnp.array([1, 3]), jnp.array([4, 4]), new)
    assert np.flatnonzero(np.asarray(cache["k"]).any((0, 2, 3, 4))).tolist() == [1]
    assert np.flatnonzero(np.asarray(cache["v"]).any((0, 1, 2, 4))).tolist() == [4, 5]
    cache = models.cache.copy(cache, jnp.array([1]), jnp.array([2]), 5)
    assert np.flatnonzero(np.asarray(cache["k"][:, 2]).any((0, 1, 2))).tolist() == [4]


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
