"""Rows of the embedding table by token, whole or in shards."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from spade_jax import parallel


def lookup(table: jax.Array, tokens: jax.Array, dtype) -> jax.Array:
    """`[B, T, D]` in `dtype` of a table `[V, D]` and tokens `[B, T]`."""
    return table[tokens].astype(dtype)


def sharded(mesh: Mesh) -> Callable[..., jax.Array]:
    """`lookup` of a table that is split by vocabulary and by width, for rows that are split.

    Every device looks up its part of the vocabulary and of the width for the rows of its whole
    fsdp group, whose parts then change places. Only activations travel, and the gradient of the
    table stays split as the table is.
    """
    rows = parallel.sharding(mesh, "batch").spec

    def local(dtype, table, tokens):
        tokens = jax.lax.all_gather(tokens, "fsdp", axis=0, tiled=True)
        index = tokens - jax.lax.axis_index("tensor") * table.shape[0]
        mine = (index >= 0) & (index < table.shape[0])
        part = lookup(table, jnp.where(mine, index, 0), dtype)
        part = jax.lax.psum(jnp.where(mine[..., None], part, 0), "tensor")
        return jax.lax.all_to_all(part, "fsdp", split_axis=0, concat_axis=2, tiled=True)

    split = parallel.sharding(mesh, "vocab", "embed").spec

    def whole(table, tokens, dtype):
        return jax.shard_map(
            functools.partial(local, dtype), mesh=mesh, in_specs=(split, rows), out_specs=rows,
            check_vma=False,
        )(table, tokens)  # fmt: skip

    return whole
