"""The key-value cache: one row of fixed length per sampler slot."""

import jax
import jax.numpy as jnp

from spade_jax.models.config import ModelConfig

Cache = dict[str, jax.Array]  # "k" and "v": [layers, slots, kv_heads, length, head_dim]


def init_cache(config: ModelConfig, num_slots: int, length: int) -> Cache:
    """Zeros: stale entries are masked, so they must only ever be finite."""
    shape = (config.num_layers, num_slots, config.num_kv_heads, length, config.head_dim)
    return {name: jnp.zeros(shape, config.dtype) for name in ("k", "v")}


def write(cache: Cache, layer, slots, positions, k, v) -> Cache:
    """Puts new keys and values into the rows `slots` of one layer.

    Args:
        layer: scalar int32.
        slots: `[B]` int32.
        positions: `[B, T]` int32; a position at or beyond the cache's length is dropped, which is
            how padding tokens leave no trace.
        k, v: `[B, T, K, D]`.
    """
    index = (layer, slots[:, None], slice(None), positions)
    return {
        "k": cache["k"].at[index].set(k.astype(cache["k"].dtype), mode="drop"),
        "v": cache["v"].at[index].set(v.astype(cache["v"].dtype), mode="drop"),
    }


def read(cache: Cache, layer, slots: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """Keys and values `[B, K, S, D]` of one layer; all slots in order when `slots` is None."""
    k = jax.lax.dynamic_index_in_dim(cache["k"], layer, keepdims=False)
    v = jax.lax.dynamic_index_in_dim(cache["v"], layer, keepdims=False)
    return (k, v) if slots is None else (k[slots], v[slots])
