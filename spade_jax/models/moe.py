"""Routed experts: fp32 router, top-k of the full softmax, and how the experts are computed."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu import megablox
from jax.sharding import Mesh

from spade_jax import parallel
from spade_jax.models.config import ModelConfig
from spade_jax.parallel import collectives

# (rows [M, A], weights [E, A, B], sizes [E]) -> [M, B]: the first sizes[0] rows times weights[0],
# and so on. What it makes of rows behind all groups is undefined.
Product = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

UP, DOWN = ("experts", "embed", "mlp"), ("experts", "mlp", "embed")  # axes of weights


def route(logits: jax.Array, top_k: int, norm_topk: bool) -> tuple[jax.Array, jax.Array]:
    """Softmax over ALL experts in fp32, then top-k, then (optionally) renormalised.

    Args:
        logits: `[..., E]`.

    Returns:
        `(weights [..., k] fp32, experts [..., k] int32)`.
    """
    weights, experts = jax.lax.top_k(jax.nn.softmax(logits.astype(jnp.float32), axis=-1), top_k)
    if norm_topk:
        weights = weights / weights.sum(-1, keepdims=True)
    return weights, experts


class Load(NamedTuple):
    """How one layer's router spreads real tokens; of all layers with a leading axis.

    Attributes:
        share: `[E]`, of the tokens that visit each expert; sums to k.
        entropy: of the router's softmax over all experts, nats, mean over tokens.
    """

    share: jax.Array
    entropy: jax.Array


def load_of(logits: jax.Array, experts: jax.Array, real: jax.Array) -> Load:
    """The load of tokens that are `real` `[B, T]`, from `logits` `[B, T, E]` and `experts`
    `[B, T, k]`; zeros without any."""
    count = jnp.maximum(real.sum(), 1)
    logp = jax.nn.log_softmax(jax.lax.stop_gradient(logits).astype(jnp.float32))
    entropy = -(jnp.exp(logp) * logp).sum(axis=-1)
    visits = jax.nn.one_hot(experts, logits.shape[-1]).sum(axis=-2)
    share = jnp.where(real[..., None], visits, 0).sum(axis=(0, 1)) / count
    return Load(share, jnp.where(real, entropy, 0).sum() / count)


def statistics(load: Load) -> dict[str, jax.Array]:
    """Means over layers: `router_load_max`, the busiest expert's tokens relative to an even spread
    (1 to E / k); `router_unused`, the share of experts without a token; `router_entropy`."""
    even = load.share.mean(axis=-1)
    return {
        "router_load_max": (load.share.max(axis=-1) / jnp.maximum(even, 1e-9)).mean(),
        "router_unused": (load.share == 0).mean(),
        "router_entropy": load.entropy.mean(),
    }


def dense(x, logits, route, gate, up, down) -> tuple[jax.Array, jax.Array]:
    """Every expert on every token, then the weighted sum: the reference; see `Kernels.experts`."""
    weights, experts = route(logits)
    hidden = nn.silu(jnp.einsum("btd,edf->btef", x, gate)) * jnp.einsum("btd,edf->btef", x, up)
    out = jnp.einsum("btef,efd->bted", hidden, down)
    chosen = jax.nn.one_hot(experts, gate.shape[0], dtype=weights.dtype)
    share = jnp.einsum("btk,btke->bte", weights, chosen)
    return jnp.einsum("bted,bte->btd", out, share.astype(x.dtype)), experts


def expert_parallel(mesh: Mesh, product: Product) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """`dense` for experts that are split over the mesh, each of them inside over `tensor`.

    Every device computes its experts for the rows of its whole `expert` group; the parts are summed
    where the rows came from, and over `tensor`. No token is dropped.
    """
    rows = parallel.sharding(mesh, "batch").spec
    wide = parallel.sharding(mesh, *UP).spec
    narrow = parallel.sharding(mesh, *DOWN).spec

    def local(route, x, logits, gate, up, down):
        weights, chosen = route(logits)
        gate, up = (collectives.gather(mesh, "fsdp", w, 1) for w in (gate, up))
        down = collectives.gather(mesh, "fsdp", down, 2)
        shape, k = x.shape, chosen.shape[-1]
        x, weights, experts = (
            collectives.gather(mesh, "expert", part, 0) for part in (x, weights, chosen)
        )
        first = collectives.index(mesh, "expert") * gate.shape[0]
        out = grouped(
            product, x.reshape(-1, x.shape[-1]), weights.reshape(-1, k),
            experts.reshape(-1, k) - first, gate, up, down,
        )  # fmt: skip
        out = collectives.sum_scatter(mesh, "expert", out.reshape(-1, *shape[1:]), 0)
        return collectives.shared_sum(mesh, "tensor", out), chosen

    def whole(x, logits, route, gate, up, down):
        return collectives.over_mesh(
            functools.partial(local, route), mesh, (rows, rows, wide, wide, narrow), (rows, rows)
        )(x, logits, gate, up, down)

    return whole


def grouped(product: Product, x, weights, experts, gate, up, down) -> jax.Array:
    """Tokens sorted by expert, one grouped product per projection.

    Args:
        x: `[N, D]`.
        experts: `[N, k]`; those outside of `gate`'s E are somebody else's: their rows are sorted
            behind all groups, where a product does nothing, and add nothing.

    Returns:
        `[N, D]`.
    """
    count = gate.shape[0]
    owners = jnp.where((experts >= 0) & (experts < count), experts, count).reshape(-1)
    order = jnp.argsort(owners, stable=True)
    back = jnp.argsort(order)
    sizes = (owners[:, None] == jnp.arange(count)).sum(axis=0, dtype=jnp.int32)
    mine = (jnp.arange(order.size) < sizes.sum())[:, None]

    def kept(rows):
        """Kernels leave what is behind all groups undefined, in either direction."""
        return jnp.where(mine, rows, 0)

    rows = kept(_moved(x, order // experts.shape[1], back))
    hidden = kept(nn.silu(product(rows, gate, sizes)) * product(rows, up, sizes))
    out = _moved(kept(product(hidden, down, sizes)), back, order)
    return jnp.einsum("nkd,nk->nd", out.reshape(*experts.shape, -1), weights.astype(out.dtype))


@jax.custom_vjp
def _moved(rows: jax.Array, index: jax.Array, back: jax.Array) -> jax.Array:
    """`rows[index]`, in which each of N rows occurs equally often. Row i's are at `back[i]`, an
    array `[M]` read as `[N, M / N]`: its gradient is thus a gather and a sum, no scatter."""
    return rows[index]


def _moved_forward(rows, index, back):
    return rows[index], (back, rows.shape[0])


def _moved_backward(kept, gradient):
    back, count = kept
    return gradient[back].reshape(count, -1, gradient.shape[-1]).sum(axis=1), None, None


_moved.defvjp(_moved_forward, _moved_backward)


def gmm(rows, weights, sizes, interpret: bool = False) -> jax.Array:
    """The grouped product in Pallas, for TPU; `interpret` runs it on any platform, for tests."""
    count = rows.shape[0]
    rows = jnp.pad(rows, ((0, -count % 128), (0, 0)))
    width = 2048 // rows.dtype.itemsize  # of a tile, by what fits into a core's memory
    tiles = functools.partial(_tiles, width)
    # Memory is laid out in lanes of 128. Weights that do not fill them lie transposed there, and a
    # kernel that wants them otherwise has them copied, and padded, for all layers at once.
    flipped = weights.shape[2] % 128 > 0
    weights = weights.swapaxes(1, 2) if flipped else weights
    return megablox.gmm(
        rows, weights, sizes, rows.dtype, tiles, None, None, flipped, interpret
    )[:count]


def _tiles(width: int, rows: int, inner: int, outer: int) -> tuple[int, int, int]:
    return 512 if rows % 512 == 0 else 128, min(width, inner), min(width, outer)


class Experts(nn.Module):
    """The mixture-of-experts feed-forward of one block, `[B, T, D] -> [B, T, D]`, and its load
    where `segment_ids` say which tokens are real."""

    config: ModelConfig
    compute: Callable[..., jax.Array]  # Kernels.experts

    @nn.compact
    def __call__(self, x: jax.Array, segment_ids=None) -> tuple[jax.Array, Load | None]:
        c, dtype = self.config, x.dtype
        init = nn.initializers.lecun_normal(in_axis=-2, out_axis=-1, batch_axis=(0,))

        def weight(name, shape, axes, init=init):
            return self.param(name, nn.with_logical_partitioning(init, axes), shape).astype(dtype)

        router = weight(
            "router", (c.d_model, c.num_experts), ("embed", None), nn.initializers.lecun_normal()
        )
        up_shape = (c.num_experts, c.d_model, c.d_expert)
        gate, up = weight("gate", up_shape, UP), weight("up", up_shape, UP)
        down = weight("down", (c.num_experts, c.d_expert, c.d_model), DOWN)
        logits = x @ router
        choice = functools.partial(route, top_k=c.experts_per_token, norm_topk=c.norm_topk)
        out, experts = self.compute(x, logits, choice, gate, up, down)
        load = None if segment_ids is None else load_of(logits, experts, segment_ids > 0)
        return out, load
