"""The mesh and the table of logical axes."""

import jax
import pytest
from jax.sharding import PartitionSpec

from spade_jax import parallel
from spade_jax.parallel import MeshError

ROWS = ("data", "fsdp", "expert")


def test_one_size_may_be_what_is_left():
    mesh = parallel.make_mesh({"data": -1, "tensor": 2})
    assert dict(mesh.shape) == {"data": 4, "fsdp": 1, "tensor": 2, "expert": 1}


def test_one_device_is_the_smallest_mesh():
    assert parallel.make_mesh({}, jax.devices()[:1]).size == 1


@pytest.mark.parametrize("sizes", [{"data": 3}, {"data": -1, "tensor": 3}, {"data": 16}])
def test_sizes_that_do_not_fit_the_devices_are_refused(sizes):
    with pytest.raises(MeshError, match="devices"):
        parallel.make_mesh(sizes)


def test_two_open_sizes_are_refused():
    with pytest.raises(MeshError, match="at most one"):
        parallel.make_mesh({"data": -1, "fsdp": -1})


def test_logical_axes_follow_the_table():
    mesh = parallel.make_mesh({"data": 2, "fsdp": 2, "tensor": 2})
    assert parallel.sharding(mesh, "batch", None).spec == PartitionSpec(ROWS, None)
    assert parallel.row_shards(mesh) == 4
    assert parallel.sharding(mesh, "embed", "mlp").spec == PartitionSpec("fsdp", "tensor")
    assert parallel.replicated(mesh).spec == PartitionSpec()
