"""Rotary positions and masked grouped-query attention, as functions of arrays."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

CACHED_QUERIES = 128  # that one block of scores over a cache holds


def rotate(x: jax.Array, positions: jax.Array, theta: float) -> jax.Array:
    """Rotary embedding in the two-halves layout of Llama and Qwen checkpoints.

    Args:
        x: `[B, T, H, D]`.
        positions: `[B, T]` int32.
        theta: base of the frequencies.
    """
    half = x.shape[-1] // 2
    frequency = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = positions[..., None].astype(jnp.float32) * frequency  # [B, T, D/2]
    cos, sin = jnp.cos(angle)[:, :, None], jnp.sin(angle)[:, :, None]
    a, b = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def attend(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Softmax attention; scores and softmax in fp32.

    The weights are normalised after they are applied: that saves passes over `[B, K, T, S]`, which
    on CPU halves the time of the backward pass.

    Args:
        q: `[B, T, H, D]`.
        k, v: `[B, K, S, D]` with K key-value heads, each serving H / K query heads.
        mask: `[B, T, S]` bool, true where a query may look. A row without any true entry gives
            the mean of `v`, never NaN; callers ignore such rows.

    Returns:
        `[B, T, H, D]`.
    """
    b, t, h, d = q.shape
    heads = k.shape[1]
    groups = h // heads
    q = q.reshape(b, t, heads, groups, d).transpose(0, 2, 3, 1, 4).reshape(b, heads, -1, d)
    scores = jnp.matmul(q, k.swapaxes(2, 3), preferred_element_type=jnp.float32)
    bias = jnp.where(mask, 0.0, jnp.finfo(jnp.float32).min)[:, None, None]
    scores = scores.reshape(b, heads, groups, t, -1) * d**-0.5 + bias
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True)))
    total = weights.sum(axis=-1, keepdims=True)
    weights = weights.astype(v.dtype).reshape(b, heads, groups * t, -1)
    out = jnp.matmul(weights, v, preferred_element_type=jnp.float32)
    out = out.reshape(b, heads, groups, t, d) / total
    return out.transpose(0, 3, 1, 2, 4).reshape(b, t, h, d).astype(v.dtype)


def attend_cached(
    q: jax.Array, past: dict, recent: dict, lengths: jax.Array, column: jax.Array
) -> jax.Array:
    """Softmax attention of new tokens over a cache row and over what is recent, as one softmax.

    Scores are `[R, H, CACHED_QUERIES, S]` fp32 at a time.

    Args:
        q: `[R, T, H, D]`, at columns `column + t` of the recent keys.
        past, recent: `"k"` `[R, K, D, S]` and `"v"` `[R, K, S, D]` of one layer; S may be 0.
        lengths: `[R]` positions of `past` that hold tokens.

    Returns:
        `[R, T, H, D]`.
    """

    def block(start, q):
        return _attend_cached(q, past, recent, lengths, column + start)

    return in_blocks(block, CACHED_QUERIES, q)


def _attend_cached(q, past, recent, lengths, column):
    r, t, h, d = q.shape
    heads, columns = recent["k"].shape[1], recent["k"].shape[-1]
    q = q.reshape(r, t, heads, h // heads, d).transpose(0, 2, 3, 1, 4).reshape(r, heads, -1, d)
    old = jnp.arange(past["k"].shape[-1]) < lengths[:, None]  # [R, S]
    new = jnp.arange(columns) <= column + jnp.arange(t)[:, None]  # [T, S]
    parts = []
    for part, mask in ((past, old[:, None, None]), (recent, new)):
        if part["k"].shape[-1]:
            scores = jnp.matmul(q, part["k"], preferred_element_type=jnp.float32) * d**-0.5
            scores = scores.reshape(r, heads, -1, t, scores.shape[-1])
            bias = jnp.where(mask, 0.0, jnp.finfo(jnp.float32).min)
            parts.append((scores + (bias[:, :, None] if bias.ndim == 4 else bias), part["v"]))
    top = [scores.max(axis=-1, keepdims=True) for scores, _ in parts]
    top = jax.tree.reduce(jnp.maximum, top)
    out, total = 0.0, 0.0
    for scores, values in parts:
        weights = jnp.exp(scores - top)
        total += weights.sum(axis=-1, keepdims=True)
        weights = weights.astype(values.dtype).reshape(r, heads, -1, weights.shape[-1])
        out += jnp.matmul(weights, values, preferred_element_type=jnp.float32)
    out = out.reshape(r, heads, -1, t, d) / total
    return out.transpose(0, 3, 1, 2, 4).reshape(r, t, h, d).astype(recent["v"].dtype)


def in_blocks(function: Callable[..., jax.Array], size: int, *arrays: jax.Array) -> jax.Array:
    """`function(start, *blocks) -> [B, size, ...]` for blocks of `arrays` `[B, T, ...]`, one after
    another and recomputed in the backward pass; its results side by side, `[B, T, ...]`.

    The last block is filled up by zeros. With at most `size` positions there is one, as it is.
    """
    length = arrays[0].shape[1]
    if length <= size:
        return function(0, *arrays)

    def cut(x):
        x = padded(x, size)
        return jnp.moveaxis(x.reshape(x.shape[0], -1, size, *x.shape[2:]), 1, 0)

    starts = jnp.arange(0, length, size)
    one = jax.checkpoint(lambda inputs: function(*inputs))
    out = jnp.moveaxis(jax.lax.map(one, (starts, *map(cut, arrays))), 0, 1)
    return out.reshape(out.shape[0], -1, *out.shape[3:])[:, :length]


def padded(x: jax.Array, multiple: int) -> jax.Array:
    """`x` `[B, T, ...]` with T filled up by zeros to a multiple."""
    return jnp.pad(x, [(0, 0), (0, -x.shape[1] % multiple), *[(0, 0)] * (x.ndim - 2)])
