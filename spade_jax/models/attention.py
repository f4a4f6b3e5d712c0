"""Rotary positions and masked grouped-query attention, as functions of arrays."""

import jax
import jax.numpy as jnp


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

    Args:
        q: `[B, T, H, D]`.
        k, v: `[B, K, S, D]` with K key-value heads, each serving H / K query heads.
        mask: `[B, T, S]` bool, true where a query may look. A row without any true entry gives
            the mean of `v`, never NaN; callers ignore such rows.

    Returns:
        `[B, T, H, D]`.
    """
    b, t, h, d = q.shape
    groups = h // k.shape[1]
    q = q.reshape(b, t, k.shape[1], groups, d)
    scores = jnp.einsum("btkgd,bksd->bkgts", q, k, preferred_element_type=jnp.float32)
    scores = jnp.where(mask[:, None, None], scores * d**-0.5, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("bkgts,bksd->btkgd", weights, v).reshape(b, t, h, d)


def packed_mask(segment_ids: jax.Array) -> jax.Array:
    """`[B, T, T]` causal mask inside segments.

    Args:
        segment_ids: `[B, T]` int32; 0 is padding, each packed trajectory has its own id.
    """
    t = segment_ids.shape[1]
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    return same & (segment_ids[:, :, None] > 0) & jnp.tril(jnp.ones((t, t), bool))
