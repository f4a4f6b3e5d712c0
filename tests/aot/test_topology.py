"""Slices by name, and what is said of names that are none."""

import sys

import jax
import pytest

from spade_jax import parallel
from spade_jax.aot import CHIPS, AotError, open_topology
from spade_jax.aot.chips import GIB


@pytest.mark.parametrize("name", ["", "v5e", "h100:8", "v5e:", "v5e:8by8", "cpu:2x4"])
def test_an_unknown_topology_is_named_with_what_was_expected(name):
    with pytest.raises(AotError, match="expected"):
        open_topology(name)


def test_simulated_devices_are_no_more_than_there_are():
    assert list(open_topology("cpu:8").devices) == jax.devices()[:8]
    with pytest.raises(AotError, match="has 8 CPU devices"):
        open_topology("cpu:64")


def test_without_libtpu_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "libtpu", None)
    with pytest.raises(AotError, match=r"pip install 'spade_jax\[tpu\]'"):
        open_topology("v5e:2x2")


@pytest.mark.parametrize(
    "name, sizes",
    [
        ("v5e:8x8", {"fsdp": 32, "tensor": 2}),
        ("v5p:4x4x4", {"fsdp": 32, "tensor": 2}),
        ("v6e:8x8", {"data": 2, "fsdp": 8, "tensor": 4}),
    ],
)
def test_a_mesh_may_split_an_axis_of_the_slice(name, sizes):
    pytest.importorskip("libtpu", reason="libtpu is not installed: pip install 'spade_jax[tpu]'")
    topology = open_topology(name)
    assert parallel.make_mesh(sizes, topology.devices).size == 64
    assert len(topology.host().devices) == 4


def test_no_chip_has_more_memory_than_is_sold():
    sold = {"v4": 32, "v5e": 16, "v5p": 96, "v6e": 32}
    for kind, gib in sold.items():
        assert 0.94 * gib < CHIPS[kind].hbm / GIB < gib
