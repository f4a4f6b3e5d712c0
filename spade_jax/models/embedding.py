"""Rows of the embedding table by token, whole or in shards."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from spade_jax import parallel
from spade_jax.parallel import collectives


def lookup(table: jax.Array, tokens: jax.Array, dtype) -> jax.Array:
    """`[B, T, D]` in `dtype` of a table `[V, D]` and tokens `[B, T]`."""
    return table[tokens].astype(dtype)


def sharded(mesh: Mesh) -> Callable[..., jax.Array]:
    """`lookup` of a table that is split by vocabulary and by width, for rows that are split.

    Every device looks up its part of the vocabulary and of the width for the rows of its whole
    fsdp group, whose parts then change places. Only activations travel, and the gradient of the
    table stays split as the table is.
    """
    if mesh.size == 1:
        return lookup
    rows = parallel.sharding(mesh, "batch").spec
    split = parallel.sharding(mesh, "vocab", "embed").spec

    def local(dtype, table, tokens):
        tokens = collectives.gather(mesh, "fsdp", tokens, 0)
        index = tokens - collectives.index(mesh, "tensor") * table.shape[0]
        mine = (index >= 0) & (index < table.shape[0])
        part = lookup(table, jnp.where(mine, index, 0), dtype)
        part = collectives.shared_sum(mesh, "tensor", jnp.where(mine[..., None], part, 0))
        return collectives.exchange(mesh, "fsdp", part, split=0, join=2)

    def whole(table, tokens, dtype):
        one = functools.partial(local, dtype)
        return collectives.over_mesh(one, mesh, (split, rows), rows)(table, tokens)

    return whole
