"""The transformer against itself: cache against packed rows, segments, impossible shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax import models, parallel

PAGE = 8


def read(config, params, tokens, length, cache, pages):
    """Reads tokens behind cache rows: hidden states and the cache, as one dispatch does it."""
    lengths = jnp.full(len(tokens), length)
    past = models.cache.take(cache, pages)
    recent = models.init_cache(config, *tokens.shape, stacked=isinstance(cache, dict))
    hidden, recent = models.hidden_cached(config, params, tokens, lengths, past, recent)
    behind = pages[:, length // PAGE :]
    return hidden, models.cache.put(cache, behind, lengths % PAGE, recent)


@pytest.mark.parametrize("stacked", [True, False])
def test_cache_rows_in_any_slot_equal_the_packed_forward(stacked):
    config = models.preset("tiny", num_layers=2)
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    ids = jax.random.randint(jax.random.key(1), (3, 12), 0, config.vocab_size)
    positions = jnp.broadcast_to(jnp.arange(12), ids.shape)
    want = models.hidden_packed(config, params, ids, positions, jnp.ones_like(ids))
    cache = models.init_cache(config, 8, PAGE, stacked)
    pages = jnp.array([[4, 1], [2, 6], [5, 3]])
    params = params if stacked else models.unstack(params)
    first, cache = read(config, params, ids[:, :7], 0, cache, pages)
    second, cache = read(config, params, ids[:, 7:9], 7, cache, pages)  # over the edge of a page
    rest, cache = read(config, params, ids[:, 9:], 9, cache, pages)
    np.testing.assert_allclose(jnp.concatenate([first, second, rest], 1), want, atol=1e-5)
    untouched = models.cache.take(cache, jnp.array([[0], [7]]))
    assert not any(leaf.any() for leaf in jax.tree.leaves(untouched))


def test_writes_keep_what_is_around_them_and_copies_are_equal():
    config = models.preset("tiny", num_layers=2)
    cache = models.init_cache(config, 4, PAGE)
    new = jax.tree.map(lambda leaf: leaf + 1.0, models.init_cache(config, 1, 3))
    cache = models.cache.put(cache, jnp.array([[1, 2]]), jnp.array([6]), new)
    cache = models.cache.put(cache, jnp.array([[2, 0]]), jnp.array([4]), new)
    filled = {"k": (0, 2, 3), "v": (0, 2, 4)}
    for name, others in filled.items():
        seen = np.asarray(cache[name]).any(others)  # [pages, positions]
        assert [np.flatnonzero(page).tolist() for page in seen] == [[], [6, 7], [0, 4, 5, 6], []]
    cache = models.cache.copy(cache, jnp.array([2, 0]), jnp.array([3, 0]))
    for leaf in cache.values():
        np.testing.assert_array_equal(leaf[:, 3], leaf[:, 2])



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
