"""`shard_map` and the collectives inside it, which do nothing along an axis of one device: XLA on
CPU would carry them out."""

import functools
from collections.abc import Callable

import jax
from jax.sharding import Mesh


def over_mesh(function: Callable, mesh: Mesh, in_specs, out_specs) -> Callable:
    """`shard_map` of a function that uses this module; on one device the function itself."""
    if mesh.size == 1:
        return function
    return jax.shard_map(
        function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def index(mesh: Mesh, axis: str) -> jax.Array | int:
    """This device's place along the axis."""
    return 0 if mesh.shape[axis] == 1 else jax.lax.axis_index(axis)


def gather(mesh: Mesh, axis: str, x: jax.Array, dim: int) -> jax.Array:
    """The parts of all devices along the axis, side by side in dimension `dim`."""
    if mesh.shape[axis] == 1:
        return x
    return jax.lax.all_gather(x, axis, axis=dim, tiled=True)


def sum_scatter(mesh: Mesh, axis: str, x: jax.Array, dim: int) -> jax.Array:
    """This device's part of the sum, which is cut in dimension `dim`."""
    if mesh.shape[axis] == 1:
        return x
    return jax.lax.psum_scatter(x, axis, scatter_dimension=dim, tiled=True)


def exchange(mesh: Mesh, axis: str, x: jax.Array, split: int, join: int) -> jax.Array:
    """Cuts dimension `split`, gives each device its piece, and joins what came in `join`."""
    if mesh.shape[axis] == 1:
        return x
    return jax.lax.all_to_all(x, axis, split_axis=split, concat_axis=join, tiled=True)


def maximum(mesh: Mesh, axis: str, x: jax.Array) -> jax.Array:
    """Over the devices along the axis; without a gradient."""
    x = jax.lax.stop_gradient(x)
    return x if mesh.shape[axis] == 1 else jax.lax.pmax(x, axis)


def shared_sum(mesh: Mesh, axis: str, parts):
    """Sums of a tree's leaves, which every device along the axis then uses in the same way.

    The gradient is thus the same on all of them, and its sum, which that of a plain `psum` would
    fetch from the others, is a multiple of it.
    """
    return parts if mesh.shape[axis] == 1 else _shared_sum(parts, axis)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _shared_sum(parts, axis):
    return jax.lax.psum(parts, axis)


def _forward(parts, axis):
    return jax.lax.psum(parts, axis), None


def _backward(axis, _, gradient):
    return (jax.tree.map(lambda leaf: leaf * jax.lax.axis_size(axis), gradient),)


_shared_sum.defvjp(_forward, _backward)
