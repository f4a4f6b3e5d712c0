"""One decoder-only transformer for Llama- and Qwen3-shaped models, dense or mixture of experts.

The same module trains (packed rows, no cache) and samples (cache rows). Nothing outside this folder
sees an `nn.Module`: the functions at the end take and return plain arrays and dicts.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from spade_jax.models import attention
from spade_jax.models import cache as kv
from spade_jax.models.config import ModelConfig
from spade_jax.models.kernels import REFERENCE, Kernels
from spade_jax.models.moe import Experts, statistics

Params = dict

# Initial weights that write into the residual stream are this much smaller than fan-in scaling, so
# that a token's embedding is not drowned by the first block's noise. Only matters from scratch.
RESIDUAL_GAIN = 0.25

# What is kept of a block for the backward pass, by `ModelConfig.remat`.
SAVED = {"full": None, "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable}


class Context(NamedTuple):
    """What every layer knows of the tokens: `positions` `[B, T]`; in training the `segment_ids`
    `[B, T]`, in sampling the `lengths` `[B]` of the past and the `column` of the first token."""

    positions: jax.Array
    segment_ids: jax.Array | None = None
    lengths: jax.Array | None = None
    column: jax.Array | int = 0


class Norm(nn.Module):
    """RMSNorm over the last axis, in fp32."""

    eps: float
    axis: str | None = "embed"

    @nn.compact
    def __call__(self, x):
        scale = self.param(
            "scale", nn.with_logical_partitioning(nn.initializers.ones, (self.axis,)), x.shape[-1:]
        )
        y = x.astype(jnp.float32)
        y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + self.eps)
        return (y * scale).astype(x.dtype)


class Projection(nn.Module):
    """A bias-free linear map that contracts the last `contract` axes of its input."""

    shape: tuple[int, ...]
    axes: tuple[str | None, ...]
    contract: int = 1
    gain: float = 1.0  # of the initial weights

    @nn.compact
    def __call__(self, x):
        fan_in = tuple(range(self.contract))
        fan_out = tuple(range(self.contract, len(self.shape)))
        init = nn.initializers.variance_scaling(
            self.gain**2, "fan_in", "truncated_normal", in_axis=fan_in, out_axis=fan_out
        )
        kernel = self.param("kernel", nn.with_logical_partitioning(init, self.axes), self.shape)
        return flat_matmul(x, kernel.astype(x.dtype), self.contract)


def flat_matmul(x: jax.Array, kernel: jax.Array, contract: int = 1) -> jax.Array:
    """Contracts the last `contract` axes of `x` with the first of `kernel`, as one plain matrix
    product: several batch axes make the backward pass on CPU half again as slow."""
    rows = x.reshape(-1, math.prod(x.shape[x.ndim - contract :]))
    columns = kernel.reshape(rows.shape[1], -1)
    return (rows @ columns).reshape(*x.shape[: x.ndim - contract], *kernel.shape[contract:])


class Attention(nn.Module):
    config: ModelConfig
    kernels: Kernels

    @nn.compact
    def __call__(self, x, past, recent, context):
        c = self.config
        kv_shape, kv_axes = (c.d_model, c.num_kv_heads, c.head_dim), ("embed", "kv_heads", None)
        q = Projection((c.d_model, c.num_heads, c.head_dim), ("embed", "heads", None), name="q")(x)
        k = Projection(kv_shape, kv_axes, name="k")(x)
        v = Projection(kv_shape, kv_axes, name="v")(x)
        if c.qk_norm:
            q, k = (
                Norm(c.norm_eps, None, name="q_norm")(q),
                Norm(c.norm_eps, None, name="k_norm")(k),
            )
        q = attention.rotate(q, context.positions, c.rope_theta)
        k = attention.rotate(k, context.positions, c.rope_theta)
        if recent is None:
            out = self.kernels.attend(q, k, v, context.segment_ids)
        else:
            recent = kv.extend(recent, context.column, k, v)
            out = attention.attend_cached(q, past, recent, context.lengths, context.column)
        out_shape, out_axes = (c.num_heads, c.head_dim, c.d_model), ("heads", None, "embed")
        output = Projection(out_shape, out_axes, contract=2, gain=RESIDUAL_GAIN, name="out")
        return output(out), recent


class FeedForward(nn.Module):
    config: ModelConfig

    @nn.compact
    def __call__(self, x):
        c = self.config
        gate = Projection((c.d_model, c.d_ff), ("embed", "mlp"), name="gate")(x)
        up = Projection((c.d_model, c.d_ff), ("embed", "mlp"), name="up")(x)
        down = Projection(
            (c.d_ff, c.d_model), ("mlp", "embed"), gain=RESIDUAL_GAIN, name="down"
        )
        return down(nn.silu(gate) * up)


class Block(nn.Module):
    config: ModelConfig
    kernels: Kernels

    @nn.compact
    def __call__(self, x, cached, context):
        c, (past, recent) = self.config, cached
        x = self.kernels.place(x)
        mixed, recent = Attention(c, self.kernels, name="attention")(
            Norm(c.norm_eps, name="attention_norm")(x), past, recent, context
        )
        x, load = x + mixed, None
        normed = Norm(c.norm_eps, name="mlp_norm")(x)
        if c.num_experts:
            experts = Experts(c, self.kernels.experts, name="mlp")
            mixed, load = experts(normed, context.segment_ids)
        else:
            mixed = FeedForward(c, name="mlp")(normed)
        return x + mixed, (recent, load)


class Transformer(nn.Module):
    config: ModelConfig
    kernels: Kernels

    def setup(self):
        c = self.config
        self.embedding = self.param(
            "embedding",
            nn.with_logical_partitioning(
                nn.initializers.normal(c.d_model**-0.5), ("vocab", "embed")
            ),
            (c.vocab_size, c.d_model),
        )
        if not c.tied:
            self.head = self.param(
                "head",
                nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "vocab")),
                (c.d_model, c.vocab_size),
            )
        block = Block
        if c.remat != "none":
            block = nn.remat(Block, prevent_cse=False, policy=SAVED[c.remat])
        self.blocks = nn.scan(
            block,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=(0, nn.broadcast),
            length=c.num_layers,
            metadata_params={nn.PARTITION_NAME: "layers"},
            unroll=c.scan_unroll,
        )(c, self.kernels)
        self.final_norm = Norm(c.norm_eps)

    def __call__(self, tokens, context: Context, past=None, recent=None):
        x, (recent, load) = self.blocks(self.embed(tokens), (past, recent), context)
        return self.final_norm(x), recent, load

    def embed(self, tokens):
        return self.kernels.lookup(self.embedding, tokens, self.config.dtype)

    def norm(self, x):
        return self.final_norm(x)



def init(config: ModelConfig, key: jax.Array) -> Params:
    """Fresh fp32 parameters whose leaves carry logical axis names (`nn.LogicallyPartitioned`)."""
    tokens = jnp.zeros((1, 1), jnp.int32)
    context = Context(tokens, jnp.ones((1, 1), jnp.int32))
    return Transformer(config, REFERENCE).init(key, tokens, context)["params"]


def hidden_packed(
    config: ModelConfig, params: Params, tokens, positions, segment_ids,
    kernels: Kernels = REFERENCE,
) -> jax.Array:  # fmt: skip
    """Final hidden states `[B, T, D]` of packed rows; all arguments `[B, T]` int32."""
    return packed_forward(config, params, tokens, positions, segment_ids, kernels)[0]


def packed_forward(
    config: ModelConfig, params: Params, tokens, positions, segment_ids, kernels: Kernels
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """`hidden_packed` and `moe.statistics` of the routers, none for a dense model."""
    context = Context(positions, segment_ids)
    hidden, _, load = Transformer(config, kernels).apply({"params": params}, tokens, context)
    return hidden, {} if load is None else statistics(load)


def hidden_cached(
    config: ModelConfig, params: Params, tokens, lengths, past: kv.Cache, recent: kv.Cache,
    column=0, kernels: Kernels = REFERENCE,
) -> tuple[jax.Array, kv.Cache]:  # fmt: skip
    """Final hidden states `[R, T, D]` of new tokens that follow cache rows, and `recent` with their
    keys and values at columns `column` to `column + T`.

    Args:
        tokens: `[R, T]` int32, at positions `lengths + column` and on.
        lengths: `[R]` int32, tokens of each row of `past`.
        past: rows as `cache.take` gives them.
        recent: what the dispatch has added so far, up to `column`.
    """
    positions = lengths[:, None] + column + jnp.arange(tokens.shape[1])
    context = Context(positions, lengths=lengths, column=column)
    if not isinstance(params["blocks"], tuple):
        variables = {"params": params}
        return Transformer(config, kernels).apply(variables, tokens, context, past, recent)[:2]
    apply = functools.partial(Transformer(config, kernels).apply, {"params": params})
    x, added = apply(tokens, method=Transformer.embed), []
    for block, *mine in zip(params["blocks"], past, recent, strict=True):
        x, (new, _) = Block(config, kernels).apply({"params": block}, x, mine, context)
        added.append(new)
    return apply(x, method=Transformer.norm), tuple(added)


def cast(config: ModelConfig, params: Params) -> Params:
    """The parameters in the dtype that they are used in, which changes no result: the model's for
    all but the scales of norms. Leaves that have it are not copied."""

    def one(path, leaf):
        keep = path[-1].key == "scale" or leaf.dtype == config.dtype
        return leaf if keep else leaf.astype(config.dtype)

    return jax.tree_util.tree_map_with_path(one, params)


def unstack(params: Params) -> Params:
    """The same parameters with `blocks` a tuple of one tree per layer. `hidden_cached` then takes
    and returns caches that are tuples over layers too, and its layer loop is unrolled.

    On CPU a loop over stacked arrays copies each layer's slice at every step, which costs more than
    the computation. Elsewhere the compiler reads slices in place.
    """
    leaves, tree = jax.tree.flatten(params["blocks"])
    layers = zip(*leaves, strict=True)  # iterating an array yields its layers
    return {**params, "blocks": tuple(jax.tree.unflatten(tree, layer) for layer in layers)}


def logits(config: ModelConfig, params: Params, hidden: jax.Array) -> jax.Array:
    """fp32 logits `[..., V]` of hidden states `[..., D]`."""
    matrix = head(config, params).astype(hidden.dtype)
    return jnp.dot(hidden, matrix, preferred_element_type=jnp.float32)


def head(config: ModelConfig, params: Params) -> jax.Array:
    """The output head `[D, V]`, as it is stored."""
    return params["embedding"].T if config.tied else params["head"]


def matrix_axes(path: Sequence, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """`(input axes, output axes)` of a leaf that is a stack of a block's matrices, else None.

    Args:
        path: of the leaf, as `jax.tree_util` gives it; boxes around the leaf do not matter.
        ndim: of the leaf, whose first axis is the layer and, with experts, whose second the expert.
    """
    names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
    if names[0] != "blocks":
        return None
    if names[-1] in ("gate", "up", "down"):
        return (2,), (3,)  # experts
    if names[-1] != "kernel":
        return None
    split = 3 if names[-2] == "out" else 2
    return tuple(range(1, split)), tuple(range(split, ndim))


def num_params(params: Params) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))
