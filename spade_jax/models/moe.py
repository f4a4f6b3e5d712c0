"""Routed experts: fp32 router, top-k of the full softmax, two ways to compute the experts."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from spade_jax.models.config import ModelConfig


def route(logits: jax.Array, top_k: int, norm_topk: bool) -> tuple[jax.Array, jax.Array]:
    """Softmax over ALL experts in fp32, then top-k, then (optionally) renormalised.

    Args:
        logits: `[N, E]`.

    Returns:
        `(weights [N, k] fp32, experts [N, k] int32)`.
    """
    weights, experts = jax.lax.top_k(jax.nn.softmax(logits.astype(jnp.float32), axis=-1), top_k)
    if norm_topk:
        weights = weights / weights.sum(-1, keepdims=True)
    return weights, experts


def dense_experts(x, weights, experts, gate, up, down) -> jax.Array:
    """Every expert on every token, then the weighted sum: the reference. `x` is `[N, D]`."""
    hidden = nn.silu(jnp.einsum("nd,edf->nef", x, gate)) * jnp.einsum("nd,edf->nef", x, up)
    out = jnp.einsum("nef,efd->ned", hidden, down)
    share = jnp.zeros((x.shape[0], gate.shape[0]), weights.dtype)
    share = share.at[jnp.arange(x.shape[0])[:, None], experts].add(weights)
    return jnp.einsum("ned,ne->nd", out, share.astype(x.dtype))


def ragged_experts(x, weights, experts, gate, up, down) -> jax.Array:
    """Tokens sorted by expert, one grouped matmul per projection. `x` is `[N, D]`."""
    n, k = experts.shape
    order = jnp.argsort(experts.reshape(-1), stable=True)
    sizes = jnp.bincount(experts.reshape(-1), length=gate.shape[0]).astype(jnp.int32)
    rows = x[order // k]
    hidden = nn.silu(jax.lax.ragged_dot(rows, gate, sizes)) * jax.lax.ragged_dot(rows, up, sizes)
    out = jax.lax.ragged_dot(hidden, down, sizes)
    out = out * weights.reshape(-1)[order][:, None].astype(out.dtype)
    return jnp.zeros_like(x).at[order // k].add(out)


class Experts(nn.Module):
    """The mixture-of-experts feed-forward of one block, `[B, T, D] -> [B, T, D]`."""

    config: ModelConfig

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        c, dtype = self.config, x.dtype
        init = nn.initializers.lecun_normal(in_axis=-2, out_axis=-1, batch_axis=(0,))

        def weight(name, shape, axes, init=init):
            return self.param(name, nn.with_logical_partitioning(init, axes), shape).astype(dtype)

        router = weight(
            "router", (c.d_model, c.num_experts), ("embed", None), nn.initializers.lecun_normal()
        )
        up_shape, up_axes = (c.num_experts, c.d_model, c.d_expert), ("experts", "embed", "mlp")
        gate, up = weight("gate", up_shape, up_axes), weight("up", up_shape, up_axes)
        down = weight("down", (c.num_experts, c.d_expert, c.d_model), ("experts", "mlp", "embed"))
        flat = x.reshape(-1, c.d_model)
        weights, experts = route(flat @ router, c.experts_per_token, c.norm_topk)
        compute = dense_experts if c.moe_impl == "dense" else ragged_experts
        return compute(flat, weights, experts, gate, up, down).reshape(x.shape)
