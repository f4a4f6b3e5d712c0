"""Parameters on their way from the learner's mesh to a replica's: eight devices, two replicas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, PartitionSpec

from spade_jax import parallel
from spade_jax.parallel import MeshError, ToReplica

REPLICA = (1, 2, 2, 1)  # data, fsdp, tensor, expert


def replicas(count=2):
    """As `make_replicas` makes it of two processes with four devices each."""
    devices = np.array(jax.devices()).reshape(count, *REPLICA)
    names = ("replica", *parallel.AXES)
    return Mesh(devices, names, axis_types=(AxisType.Auto,) * len(names))


def learners(order):
    mesh = parallel.make_mesh({"fsdp": 4, "tensor": 2}, [jax.devices()[k] for k in order])
    boxed = {"kernel": ("embed", "mlp"), "scale": (None,)}
    shardings = {name: parallel.sharding(mesh, *axes) for name, axes in boxed.items()}
    host = {
        "kernel": np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32),
        "scale": np.arange(8, dtype=np.float32),
    }
    return host, shardings, parallel.place(host, shardings)


def halved(params):
    return {**params, "kernel": params["kernel"].astype(jnp.bfloat16)}


@pytest.mark.parametrize("order", [range(8), (0, 4, 2, 6, 1, 5, 3, 7)])
@pytest.mark.parametrize("index", [0, 1])
def test_a_replica_gets_all_parameters_in_its_dtype_on_its_own_devices(order, index):
    host, shardings, params = learners(order)
    move = ToReplica(shardings, replicas(), halved, index)
    assert move.moves and set(move.mesh.devices.flat) == set(jax.devices()[4 * index :][:4])
    moved = move(params)
    np.testing.assert_array_equal(moved["kernel"], host["kernel"].astype(jnp.bfloat16))
    np.testing.assert_array_equal(moved["scale"], host["scale"])
    assert moved["kernel"].sharding.mesh == move.mesh
    assert moved["kernel"].sharding.spec == PartitionSpec("fsdp", "tensor")
    assert moved["kernel"].addressable_shards[0].data.shape == (8, 4)
    np.testing.assert_array_equal(params["kernel"], host["kernel"])  # nothing was given away


def test_nothing_moves_where_the_replica_is_the_learners_mesh():
    sizes = {"fsdp": 4, "tensor": 2}
    host, shardings, params = learners(range(8))
    move = ToReplica(shardings, parallel.make_replicas(sizes), halved)
    there = move(params)
    assert not move.moves and {name: leaf.sharding for name, leaf in there.items()} == shardings
    np.testing.assert_array_equal(there["kernel"], host["kernel"].astype(jnp.bfloat16))


def test_the_move_lowers_to_one_program_that_gathers():
    _, shardings, params = learners((0, 4, 2, 6, 1, 5, 3, 7))
    move = ToReplica(shardings, replicas(), halved, 0)
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), params
    )
    text = move.lower(shapes).compile().as_text()
    assert "all-gather" in text or "all-to-all" in text or "collective-permute" in text


def test_sizes_of_a_replica_that_do_not_fit_a_process_are_refused():
    with pytest.raises(MeshError, match="replica: .* needs 3 devices"):
        parallel.make_replicas({"data": 3})


def test_arrays_of_the_host_come_back_as_they_were_placed():
    host, _, params = learners(range(8))
    np.testing.assert_array_equal(parallel.to_host(params["kernel"]), host["kernel"])
