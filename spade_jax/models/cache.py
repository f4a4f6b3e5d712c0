"""The key-value cache: one row per sampler slot, read as *past*, extended by what is *recent*.

A dispatch takes its rows out of the cache once (`take`), computes with them unchanged while new
keys and values gather in a small buffer (`init_cache` of that length), and puts that buffer back at
its end (`put`). The large arrays are thus never written inside a loop: on CPU, where each such
write copies the cache, this is most of what a decode step costs. Keys are stored transposed, which
a product with few queries reads in order.

A cache is a dict of arrays over all layers, or, beside `transformer.unstack`ed parameters, a tuple
of one dict per layer without the leading axis. Rows are the axis before heads.
"""

import functools

import jax
import jax.numpy as jnp

from spade_jax.models.config import ModelConfig

# "k": [layers, rows, kv_heads, head_dim, length], "v": [layers, rows, kv_heads, length, head_dim]
Rows = dict[str, jax.Array]
Cache = Rows | tuple[Rows, ...]


def init_cache(config: ModelConfig, rows: int, length: int, stacked: bool = True) -> Cache:
    """Zeros: stale entries are masked, so they must only ever be finite."""
    shape = (rows, config.num_kv_heads)

    def zeros(*leading):
        return {
            "k": jnp.zeros((*leading, *shape, config.head_dim, length), config.dtype),
            "v": jnp.zeros((*leading, *shape, length, config.head_dim), config.dtype),
        }

    return zeros(config.num_layers) if stacked else tuple(zeros() for _ in range(config.num_layers))


def take(cache: Cache, slots: jax.Array | None, length: int) -> Cache:
    """The first `length` positions of rows `slots` `[R]`; of all rows in order when None."""

    def one(rows: Rows) -> Rows:
        k, v = rows["k"][..., :length], rows["v"][..., :length, :]
        if slots is not None:
            k, v = (jnp.take(part, slots, axis=-4, mode="clip") for part in (k, v))
        return {"k": k, "v": v}

    return _per_layer(one, cache)


def put(cache: Cache, slots: jax.Array, starts: jax.Array, recent: Cache) -> Cache:
    """Writes row i of `recent` into row `slots[i]` from position `starts[i]` on.

    All of it is written: what a row did not sample lies beyond its length, where the next tokens
    of the row overwrite it. A slot of at least the number of rows is left out. The cache must be
    longer than every start by the length of `recent`.
    """

    def write(row, rows: Rows, new: Rows) -> Rows:
        placed = {}
        for name, time in (("k", -1), ("v", -2)):
            at = [0] * rows[name].ndim
            at[-4], at[time] = slots[row], starts[row]
            part = jax.lax.dynamic_slice_in_dim(new[name], row, 1, axis=rows[name].ndim - 4)
            placed[name] = jax.lax.dynamic_update_slice(rows[name], part, at)
        return placed

    def step(row, cache):
        known = slots[row] < jax.tree.leaves(cache)[0].shape[-4]
        write_row = functools.partial(write, row)
        return jax.lax.cond(
            known, lambda cache: _per_layer(write_row, cache, recent), lambda cache: cache, cache
        )

    return jax.lax.fori_loop(0, slots.shape[0], step, cache)


def copy(cache: Cache, source: jax.Array, target: jax.Array, length: int) -> Cache:
    """Copies the first `length` positions of rows `source` `[R]` to rows `target` `[R]`."""
    return put(cache, target, jnp.zeros_like(target), take(cache, source, length))


def extend(recent: Rows, column, k, v) -> Rows:
    """Puts one layer's new keys and values `[R, T, K, D]` at columns from `column` on."""
    k, v = k.transpose(0, 2, 3, 1), v.transpose(0, 2, 1, 3)
    return {
        "k": jax.lax.dynamic_update_slice(recent["k"], k, (0, 0, 0, column)),
        "v": jax.lax.dynamic_update_slice(recent["v"], v, (0, 0, column, 0)),
    }


def _per_layer(function, *caches: Cache) -> Cache:
    if isinstance(caches[0], tuple):
        return tuple(function(*rows) for rows in zip(*caches, strict=True))
    return function(*caches)
