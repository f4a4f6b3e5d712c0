"""The key-value cache: pages of a fixed number of positions, read as *past*, extended by *recent*.

A row's keys and values lie in pages that a table outside names, so that a short row pays for what
it fills and several rows can hold one page. A dispatch gathers its rows' pages into contiguous
arrays once (`take`), computes with them unchanged while new keys and values gather in a small
buffer (`init_cache` of that length), and puts that buffer behind the rows at its end (`put`). The
pages are thus never written inside a loop: on CPU, where each such write copies the cache, this is
most of what a decode step costs. Keys are stored transposed, which a product with few queries reads
in order.

A cache is a dict of arrays over all layers, or, beside `transformer.unstack`ed parameters, a tuple
of one dict per layer without the leading axis. Rows, or pages, are the axis before heads.
"""

import jax
import jax.numpy as jnp

from spade_jax.models.config import ModelConfig

# "k": [layers, rows, kv_heads, head_dim, length], "v": [layers, rows, kv_heads, length, head_dim]
Rows = dict[str, jax.Array]
Cache = Rows | tuple[Rows, ...]
TIME = {"k": -1, "v": -2}  # the axis of positions


def init_cache(config: ModelConfig, rows: int, length: int, stacked: bool = True) -> Cache:
    """Zeros: stale entries are masked, so they must only ever be finite."""
    shape = (rows, config.num_kv_heads)

    def zeros(*leading):
        return {
            "k": jnp.zeros((*leading, *shape, config.head_dim, length), config.dtype),
            "v": jnp.zeros((*leading, *shape, length, config.head_dim), config.dtype),
        }

    return zeros(config.num_layers) if stacked else tuple(zeros() for _ in range(config.num_layers))


def position_bytes(config: ModelConfig) -> int:
    """Bytes of one position's keys and values in all layers."""
    numbers = 2 * config.num_layers * config.num_kv_heads * config.head_dim
    return numbers * jnp.dtype(config.dtype).itemsize


def take(cache: Cache, pages: jax.Array) -> Cache:
    """Rows of n pages each, in the order of `pages` `[R, n]`, as contiguous arrays."""

    def one(part, time):
        got = jnp.take(part, pages, axis=-4, mode="clip")  # [..., R, n, K, *, *]
        got = jnp.moveaxis(got, -4, time - 1)  # the pages of a row beside their positions
        shape = list(got.shape)
        shape[time - 1 : time + 1 or None] = [shape[time - 1] * shape[time]]
        return got.reshape(shape)

    return jax.tree.map(one, cache, _times(cache))


def put(cache: Cache, pages: jax.Array, offsets: jax.Array, recent: Cache) -> Cache:
    """Writes row i of `recent` from position `offsets[i]` of page `pages[i, 0]` on.

    Args:
        pages: `[R, m]`, enough for the longest write; what is beyond a row's own pages goes to a
            page that nobody reads.
        offsets: `[R]`, below the length of a page.
    """

    def one(part, new, time):
        page, width, touched = part.shape[time], new.shape[time], pages.shape[1]
        edges = [(0, 0)] * new.ndim
        edges[time] = page, touched * page - width
        placed = jax.vmap(
            lambda row, offset: jax.lax.dynamic_slice_in_dim(
                row, page - offset, touched * page, row.ndim + time
            ),
            (new.ndim - 4, 0), new.ndim - 4,
        )(jnp.pad(new, edges), offsets)  # fmt: skip
        column = jnp.arange(touched * page) - offsets[:, None]  # [R, m * page], of `new`
        column = column[:, None, None] if time == -1 else column[:, None, :, None]
        written = _cut((column >= 0) & (column < width), time, touched)
        pages_of = part.at[(*[slice(None)] * (part.ndim - 4), pages.reshape(-1))]
        old = pages_of.get(mode="clip")
        new = jnp.where(written, _cut(placed, time, touched), old)
        return pages_of.set(new, mode="promise_in_bounds")

    return jax.tree.map(one, cache, recent, _times(cache))


def _cut(rows: jax.Array, time: int, count: int) -> jax.Array:
    """Rows `[..., R, K, *, *]` as `count` pages each: `[..., R * count, K, *, *]`."""
    shape = list(rows.shape)
    shape[time : time + 1 or None] = [count, shape[time] // count]
    cut = jnp.moveaxis(rows.reshape(shape), time - 1, -4)  # [..., R, count, K, *, *]
    return cut.reshape(*cut.shape[:-5], -1, *cut.shape[-3:])


def copy(cache: Cache, source: jax.Array, target: jax.Array) -> Cache:
    """Copies pages `source` `[M]` to pages `target` `[M]`, which must not overlap but in pages that
    nobody reads."""

    def one(part):
        pages = jnp.take(part, source, axis=-4, mode="clip")
        index = (*[slice(None)] * (part.ndim - 4), target)
        return part.at[index].set(pages)

    return jax.tree.map(one, cache)


def extend(recent: Rows, column, k, v) -> Rows:
    """Puts one layer's new keys and values `[R, T, K, D]` at columns from `column` on."""
    k, v = k.transpose(0, 2, 3, 1), v.transpose(0, 2, 1, 3)
    return {
        "k": jax.lax.dynamic_update_slice(recent["k"], k, (0, 0, 0, column)),
        "v": jax.lax.dynamic_update_slice(recent["v"], v, (0, 0, column, 0)),
    }


def _times(cache: Cache):
    """The axis of positions of each leaf."""
    return tuple(TIME for _ in cache) if isinstance(cache, tuple) else TIME
