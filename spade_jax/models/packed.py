"""Attention over packed rows, causal within segments: a reference and the kernels of platforms.

All take `q` `[B, T, H, d]`, `k` and `v` `[B, T, K, d]`, each key-value head serving H / K query
heads, and `segment_ids` `[B, T]` int32, in which 0 is padding and each packed trajectory has its
own id. They agree wherever the id is not 0.
"""

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

from spade_jax.models import attention
from spade_jax.models.attention import padded

QUERIES = 512  # that one block holds
LANES = 128  # of a TPU: every block is a multiple


def xla(q: jax.Array, k: jax.Array, v: jax.Array, segment_ids: jax.Array) -> jax.Array:
    """The reference. Longer rows go in blocks of queries, so that scores are `[B, H, QUERIES, T]`
    fp32 at a time."""
    k, v = k.swapaxes(1, 2), v.swapaxes(1, 2)
    columns = jnp.arange(k.shape[2])

    def block(start, q, ids):
        same = (ids[:, :, None] == segment_ids[:, None]) & (ids[:, :, None] > 0)
        past = start + jnp.arange(q.shape[1])[:, None] >= columns
        return attention.attend(q, k, v, same & past)

    return attention.in_blocks(block, QUERIES, q, segment_ids)


def splash(
    q: jax.Array, k: jax.Array, v: jax.Array, segment_ids: jax.Array, interpret: bool = False
) -> jax.Array:
    """The Pallas kernel for TPU: no scores in memory, and no work for blocks above the diagonal.

    Args:
        interpret: runs it step by step on any platform, for tests.
    """
    t, heads = q.shape[1:3]
    size = min(QUERIES, -(-t // LANES) * LANES)
    q, k, v = (padded(x, size).swapaxes(1, 2) for x in (q * q.shape[-1] ** -0.5, k, v))
    ids = padded(segment_ids, size)
    causal = masks.CausalMask((q.shape[2], q.shape[2]))
    run = kernel.make_splash_mha_single_device(
        masks.MultiHeadMask([causal] * heads),
        block_sizes=kernel.BlockSizes(
            block_q=size, block_kv=size, block_q_dkv=size, block_kv_dkv=size, block_q_dq=size,
            block_kv_dq=size,
        ),
        interpret=interpret,
    )  # fmt: skip
    out = jax.vmap(run)(q, k, v, kernel.SegmentIds(ids, ids))
    return out.swapaxes(1, 2)[:, :t]


def cudnn(q: jax.Array, k: jax.Array, v: jax.Array, segment_ids: jax.Array) -> jax.Array:
    """cuDNN's flash attention. Its public interface knows segments as a mask only, which it takes
    as a bias: 3 bytes for each of `[B, T, T]`, so 3 GiB for a row of 32k in the forward pass and
    again in the backward pass, whatever the number of heads."""
    t = q.shape[1]
    q, k, v, ids = (padded(x, 2) for x in (q, k, v, segment_ids))  # it trains on even lengths
    same = (ids[:, :, None] == ids[:, None])[:, None]
    out = jax.nn.dot_product_attention(
        q, k, v, mask=same, is_causal=True, implementation="cudnn"
    )
    return out[:, :t]


def cudnn_takes(dtype: str, head_dim: int) -> bool:
    """Whether `cudnn` is made for such queries, on every GPU since Ampere."""
    return dtype in ("bfloat16", "float16") and head_dim % 8 == 0 and head_dim <= 128
