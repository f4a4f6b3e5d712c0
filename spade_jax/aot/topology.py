"""Devices of a TPU slice that is not there, for programs that are compiled and never run.

`v5e:8x8`, `v5p:4x4x4`: chips along each axis of the slice, compiled for by libtpu on any x86-64
machine. `cpu:64`: one host with that many simulated CPU devices, for which programs are lowered, so
that this much can be tried without libtpu.
"""

import dataclasses
import os
from collections.abc import Sequence

import jax
from jax.experimental import topologies

from spade_jax.aot.chips import CHIPS, Chip
from spade_jax.extras import require

# What libtpu reads when it is loaded. It then neither looks for a TPU's metadata server nor minds
# another process that has it open, and says nothing of the host, which it does not compile for.
LIBTPU = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4", "TPU_WORKER_HOSTNAMES": "localhost",
}  # fmt: skip


class AotError(ValueError):
    """The check cannot be made; the message says what was expected."""


@dataclasses.dataclass(frozen=True)
class Topology:
    name: str
    chip: Chip
    devices: Sequence[jax.Device]

    @property
    def is_simulated(self) -> bool:
        return self.name.startswith("cpu:")

    def host(self) -> "Topology":
        """The slice of the first host alone. libtpu compiles for whole slices, hence one of its
        own."""
        if self.is_simulated:
            return self
        own = [device.coords for device in self.devices if device.process_index == 0]
        sides = [max(axis) - min(axis) + 1 for axis in zip(*own, strict=True)]
        kind, _, size = self.name.partition(":")
        return open_topology(f"{kind}:" + "x".join(map(str, sides[: size.count("x") + 1])))


def open_topology(name: str) -> Topology:
    """
    Raises:
        AotError: it is not known, or libtpu is not installed.
    """
    kind, _, size = name.partition(":")
    if kind not in CHIPS or not size.replace("x", "").isdigit():
        raise AotError(
            f"--topology={name}: expected KIND:SIZE with a kind of {', '.join(CHIPS)}, for example"
            " v5e:8x8, v5p:4x4x4 or cpu:64"
        )
    devices = _simulated(size) if kind == "cpu" else _described(name)
    return Topology(name, CHIPS[kind], devices)


def _simulated(size: str) -> list[jax.Device]:
    """Their number must be known before JAX looks at any device: see `prepare`."""
    if not size.isdigit():
        raise AotError(f"--topology=cpu:{size}: expected one number, for example cpu:64")
    devices = jax.devices("cpu")
    if int(size) > len(devices):
        raise AotError(f"--topology=cpu:{size}: this process has {len(devices)} CPU devices")
    return devices[: int(size)]


def _described(name: str) -> list[jax.Device]:
    require("libtpu", "tpu", AotError)
    megacore = {"chip_config_name": "megacore"} if name.startswith("v4:") else {}
    try:
        return list(topologies.get_topology_desc(name, "tpu", **megacore).devices)
    except jax.errors.JaxRuntimeError as error:
        said = str(error).splitlines()[0]
        raise AotError(f"--topology={name}: libtpu does not know it: {said}") from error

def prepare(name: str) -> None:
    """Makes this process one that only compiles for `name`, before JAX looks at a device."""
    for variable, value in LIBTPU.items():
        os.environ.setdefault(variable, value)
    jax.config.update("jax_platforms", "cpu")
    kind, _, size = name.partition(":")
    if kind == "cpu" and size.isdigit():
        jax.config.update("jax_num_cpu_devices", int(size))
