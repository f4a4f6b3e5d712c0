"""What a checkpoint should hold, so that damage that storage does not notice is noticed here."""

import json
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import msgspec

MIXERS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)  # odd, one per dimension


class ArrayInfo(msgspec.Struct, frozen=True):
    """`digest` is of the bits of all elements and their places, on whatever mesh they lie."""

    shape: tuple[int, ...]
    dtype: str
    digest: int | None = None


def named(tree: Any) -> dict[str, Any]:
    """The leaves by their paths, "learner/params/embedding"."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def layout(tree: Any) -> dict[str, ArrayInfo]:
    """Shapes and types of arrays, or of what stands for them, without digests."""
    return {
        name: ArrayInfo(tuple(leaf.shape), str(leaf.dtype)) for name, leaf in named(tree).items()
    }


def inventory(tree: Any) -> dict[str, ArrayInfo]:
    """Shapes, types and digests. One pass over the arrays, where they are, one after another: many
    programs with collectives at a time exhaust the threads of a mesh of simulated devices."""
    leaves = named(tree)
    return {
        name: msgspec.structs.replace(info, digest=int(_digest(leaves[name])))
        for name, info in layout(tree).items()
    }


def json_digest(content: Any) -> int:
    """Of plain JSON content, before it is written or after it was read."""
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


@jax.jit
def _digest(array: jax.Array) -> jax.Array:
    """The sum modulo 2^32 of every element's bits times an odd number made of its place.

    An odd factor keeps every changed bit in the sum; integers add up to the same in any order.
    """
    if array.dtype == jnp.bool_:
        array = array.astype(jnp.uint8)
    width = 8 * min(4, array.dtype.itemsize)
    words = jax.lax.bitcast_convert_type(array, jnp.dtype(f"uint{width}"))
    place = jnp.zeros(words.shape, jnp.uint32)
    for axis in range(words.ndim):
        index = jax.lax.broadcasted_iota(jnp.uint32, words.shape, axis)
        place = (place ^ index) * jnp.uint32(MIXERS[axis % len(MIXERS)])
        place ^= place >> 15
    return jnp.sum(words.astype(jnp.uint32) * (place | 1), dtype=jnp.uint32)
