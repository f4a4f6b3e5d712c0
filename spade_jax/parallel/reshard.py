"""From the learner's mesh over all processes to the replica that this process samples on."""

import itertools
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding

from spade_jax.parallel.mesh import AXES, MeshError, make_mesh

AUTO = (AxisType.Auto,)


def make_replicas(sizes: Mapping[str, int], devices=None) -> Mesh:
    """All replicas as one mesh: axis `replica`, then `AXES`. Each has the devices of one process.

    Raises:
        MeshError: the sizes do not multiply to a process's devices, or processes differ in them.
    """
    devices = sorted(
        jax.devices() if devices is None else devices, key=lambda d: (d.process_index, d.id)
    )
    hosts = [list(own) for _, own in itertools.groupby(devices, lambda d: d.process_index)]
    if len({len(own) for own in hosts}) > 1:
        counts = ", ".join(str(len(own)) for own in hosts)
        raise MeshError(f"processes have {counts} devices: expected the same number in each")
    try:
        meshes = [make_mesh(sizes, own) for own in hosts]
    except MeshError as error:
        raise MeshError(f"replica: {error}") from error
    return Mesh(
        np.stack([mesh.devices for mesh in meshes]), ("replica", *AXES),
        axis_types=AUTO * (1 + len(AXES)),
    )  # fmt: skip


def replica_mesh(replicas: Mesh, index: int) -> Mesh:
    """One replica of `make_replicas` as a mesh over `AXES`."""
    return Mesh(replicas.devices[index], AXES, axis_types=AUTO * len(AXES))


class ToReplica:
    """Moves parameters between the phases of a step, over the devices' own network.

    Attributes:
        mesh: of this process's replica.
        moves: False where the replica is the learner's mesh, so that nothing has to.
    """

    def __init__(self, shardings, replicas: Mesh, cast: Callable, index: int | None = None):
        """
        Args:
            shardings: of the parameters on the learner's mesh, a tree of `NamedSharding`.
            cast: what the replica wants them as, for example in another dtype; on the learner's
                mesh, so that less travels.
            index: of the replica; None: this process's.
        """
        index = jax.process_index() if index is None else index
        learners = jax.tree.leaves(shardings)[0].mesh
        self.mesh = replica_mesh(replicas, index)
        self.moves = self.mesh != learners
        self._cast = jax.jit(cast, out_shardings=shardings)
        self._everywhere = _on(replicas, shardings)
        self._here = _on(self.mesh, shardings)
        self._lowered = jax.jit(
            cast, out_shardings=_on(_in_order_of(learners, replicas), shardings)
        )

    def __call__(self, params):
        """The parameters on this process's replica; all processes call it together."""
        params = self._cast(params)
        if not self.moves:
            return params
        # Meshes order devices by how they are wired, and only `device_put` takes two orders.
        everywhere = jax.device_put(params, self._everywhere)
        return jax.tree.map(_part, everywhere, self._here)

    def lower(self, params):
        """The whole move as one program for an ahead-of-time compile, as if the replicas' devices
        stood in the learner's order."""
        return self._lowered.lower(params)


def _on(mesh: Mesh, shardings):
    return jax.tree.map(lambda sharding: NamedSharding(mesh, sharding.spec), shardings)


def _in_order_of(mesh: Mesh, replicas: Mesh) -> Mesh:
    return Mesh(
        mesh.devices.reshape(replicas.devices.shape), replicas.axis_names,
        axis_types=replicas.axis_types,
    )  # fmt: skip


def _part(array: jax.Array, sharding: NamedSharding) -> jax.Array:
    """What lies on the devices of one replica, as an array of its own."""
    shards = {shard.device: shard.data for shard in array.addressable_shards}
    parts = [shards[device] for device in sharding.mesh.devices.flat]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, parts)
