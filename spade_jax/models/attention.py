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


def packed_mask(segment_ids: jax.Array) -> jax.Array:
    """`[B, T, T]` causal mask inside segments.

    Args:
        segment_ids: `[B, T]` int32; 0 is padding, each packed trajectory has its own id.
    """
    t = segment_ids.shape[1]
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    return same & (segment_ids[:, :, None] > 0) & jnp.tril(jnp.ones((t, t), bool))
