"""Devices of a TPU slice that is not there, for programs that are compiled and never run.

`v5e:8x8`, `v5p:4x4x4`: chips along each axis of the slice, compiled for by libtpu on any x86-64
machine. `cpu:64`: that many simulated CPU devices, for which programs are lowered, so that this
much can be tried without libtpu.
"""

import dataclasses
import math
import os
from collections.abc import Sequence

import jax
from jax.experimental import topologies

from spade_jax.aot.chips import CHIPS, Chip
from spade_jax.extras import require

CPU_HOST = 4  # simulated devices that stand for one host's


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

    def first_hosts(self, count: int) -> "Topology":
        """The slice of the first `count` hosts. libtpu compiles for whole slices only, hence a
        slice of its own; its links do not wrap around as the larger one's may.

        Raises:
            AotError: there are fewer hosts, or these do not make a box.
        """
        wrong = AotError(
            f"replica.processes={count}: expected a number of hosts of {self.name} whose chips make"
            " a box"
        )
        if self.is_simulated:
            chips = count * min(CPU_HOST, len(self.devices))
            if chips > len(self.devices):
                raise wrong
            return open_topology(f"cpu:{chips}")
        some = [device for device in self.devices if device.process_index < count]
        corners = [[device.coords[axis] for device in some] for axis in range(3)]
        sides = [max(corner) - min(corner) + 1 for corner in corners]
        hosts = len({device.process_index for device in some})
        if hosts < count or math.prod(sides) != len(some):
            raise wrong
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
    """Makes this process one that only compiles for `name`. Call it before JAX looks at a device.

    libtpu reads these variables when it is loaded: it then neither looks for a TPU's metadata
    server nor minds another process that has it open.
    """
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    jax.config.update("jax_platforms", "cpu")
    kind, _, size = name.partition(":")
    if kind == "cpu" and size.isdigit():
        jax.config.update("jax_num_cpu_devices", int(size))
