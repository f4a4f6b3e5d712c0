"""The device mesh and the one table that maps logical array axes onto it."""

import math
from collections.abc import Mapping

import flax.linen as nn
import jax
import numpy as np
from jax.experimental import mesh_utils, multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, Sharding

AXES = ("data", "fsdp", "tensor", "expert")

# Rows are split over every axis but `tensor`, so that no device repeats another one's work: experts
# gather the rows of their group.
ROW_AXES = ("data", "fsdp", "expert")

# Logical axis of a parameter or activation -> mesh axis. Everything else is replicated.
RULES = (
    ("batch", ROW_AXES),
    ("slots", ROW_AXES),
    ("vocab", "tensor"),
    ("embed", "fsdp"),
    ("heads", "tensor"),
    ("kv_heads", "tensor"),
    ("mlp", "tensor"),
    ("experts", "expert"),
    ("layers", None),
)


class MeshError(ValueError):
    """The mesh does not fit the devices or the arrays."""


def make_mesh(sizes: Mapping[str, int], devices=None) -> Mesh:
    """A mesh over `AXES`. One size may be -1: the devices that are left.

    Raises:
        MeshError: the sizes do not multiply to the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    shape = [int(sizes.get(axis, 1)) for axis in AXES]
    if shape.count(-1) > 1:
        raise MeshError(f"mesh={dict(sizes)}: at most one size may be -1")
    known = 1
    for size in shape:
        known *= 1 if size == -1 else size
    if -1 in shape:
        shape[shape.index(-1)], known = len(devices) // max(known, 1), len(devices)
    total = 1
    for size in shape:
        total *= size
    if total != len(devices) or total != known:
        raise MeshError(
            f"mesh={dict(sizes)} needs {total} devices, this process group has {len(devices)}"
        )
    # jax.make_mesh refuses sizes that split a slice's axis, as 32 x 2 on 8 x 8 chips.
    wired = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
    return Mesh(wired, AXES, axis_types=(AxisType.Auto,) * len(AXES))


def row_shards(mesh: Mesh) -> int:
    """Parts that rows and slots are split into: their number must be a multiple."""
    return math.prod(mesh.shape[axis] for axis in ROW_AXES)


def sharding(mesh: Mesh, *logical: str | None) -> NamedSharding:
    """The sharding of an array whose axes have these logical names."""
    return NamedSharding(mesh, nn.logical_to_mesh_axes(logical, RULES))


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec())


def tree_shardings(mesh: Mesh, boxed) -> dict:
    """Shardings of a tree whose leaves carry logical axis names (see `models.init`)."""
    return nn.logical_to_mesh_sharding(nn.get_partition_spec(boxed), mesh, RULES)


def unbox(boxed):
    """The plain tree without axis names."""
    return nn.unbox(boxed)


def place(tree, shardings):
    """Arrays of the host, the same in every process, on their devices: each process puts what its
    own devices hold.

    Args:
        shardings: a tree of them, or one for all.
    """

    def put(array: np.ndarray, sharding: Sharding) -> jax.Array:
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    if isinstance(shardings, Sharding):
        return jax.tree.map(lambda array: put(array, shardings), tree)
    return jax.tree.map(put, tree, shardings)


def to_host(array: jax.Array) -> np.ndarray:
    """A copy of the whole array, in every process; they call it together."""
    if not (array.is_fully_addressable or array.is_fully_replicated):
        array = multihost_utils.process_allgather(array, tiled=True)
    return np.array(array)
