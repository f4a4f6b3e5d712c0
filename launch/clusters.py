"""Slices of TPUs as plain data: where they are and what they are called in each service.

A lab writes its own `Cluster` here, or fills the fields by flags of the same names.
"""

import dataclasses
import math
import re
from collections.abc import Mapping

from launch.errors import LaunchError


def _text(help_: str, default: str = ""):
    return dataclasses.field(default=default, metadata={"help": help_})


@dataclasses.dataclass(frozen=True)
class Cluster:
    topology: str = _text("Slice, as the ahead-of-time check calls it, v5p:4x4x4.")
    image: str = _text("Container with this code, REGION-docker.pkg.dev/PROJECT/REPO/NAME:TAG.")
    service_account: str = _text(
        "Who the run is; must be able to write the bucket. tpu_vm: an e-mail address; empty: the "
        "project's default. gke: a Kubernetes service account; empty: the namespace's default."
    )
    spot: bool = dataclasses.field(
        default=False, metadata={"help": "Cheaper chips that may be taken away at any time."}
    )
    project: str = _text("tpu_vm: project of Google Cloud.")
    zone: str = _text("tpu_vm: zone, us-east5-a.")
    runtime: str = _text("tpu_vm: TPU software version; empty: the usual one of the generation.")
    network: str = _text("tpu_vm: network of the VMs.", "default")
    context: str = _text("gke: cluster, as `kubectl config get-contexts` names it.")
    namespace: str = _text("gke: namespace.", "default")
    queue: str = _text("gke: Kueue queue; empty: none.")

    def need(self, backend: str, *names: str) -> None:
        """Raises LaunchError where some of these fields are empty; it names them all."""
        missing = [
            f"--{field.name} ({field.metadata['help'].rstrip('.')})"
            for field in dataclasses.fields(self)
            if field.name in names and not getattr(self, field.name)
        ]
        if missing:
            raise LaunchError(f"{backend} also needs {', '.join(missing)}")


CLUSTERS: Mapping[str, Cluster] = {
    "v5e_64": Cluster(topology="v5e:8x8"),
    "v5e_256": Cluster(topology="v5e:16x16"),
    "v5p_64": Cluster(topology="v5p:4x4x4"),
    "v6e_64": Cluster(topology="v6e:8x8"),
}


@dataclasses.dataclass(frozen=True)
class Generation:
    """Attributes:
    dimensions: of a topology.
    vm_type: first part of Cloud TPU's accelerator type.
    vm_cores: what its number counts on each chip.
    runtime: the usual TPU software version.
    gke: value of the node label cloud.google.com/gke-tpu-accelerator.
    """

    dimensions: int
    vm_type: str
    vm_cores: int
    runtime: str
    gke: str


GENERATIONS: Mapping[str, Generation] = {
    "v4": Generation(3, "v4", 2, "tpu-ubuntu2204-base", "tpu-v4-podslice"),
    "v5e": Generation(2, "v5litepod", 1, "v2-alpha-tpuv5-lite", "tpu-v5-lite-podslice"),
    "v5p": Generation(3, "v5p", 2, "v2-alpha-tpuv5", "tpu-v5p-slice"),
    "v6e": Generation(2, "v6e", 1, "v2-alpha-tpuv6e", "tpu-v6e-slice"),
}


@dataclasses.dataclass(frozen=True)
class Slice:
    """Attributes:
    shape: "4x4x4".
    chips: in all.
    hosts: machines, each of which runs one process.
    """

    generation: Generation
    shape: str
    chips: int
    hosts: int

    @property
    def accelerator_type(self) -> str:
        """Cloud TPU's name for that many chips, "v5p-128"."""
        return f"{self.generation.vm_type}-{self.chips * self.generation.vm_cores}"


def parse_topology(topology: str) -> Slice:
    """Raises LaunchError for what is not GENERATION:AxB or GENERATION:AxBxC."""
    name, _, shape = topology.partition(":")
    generation = GENERATIONS.get(name)
    sizes = [int(size) for size in shape.split("x")] if re.fullmatch(r"\d+(x\d+)*", shape) else []
    if generation is None or len(sizes) != generation.dimensions or 0 in sizes:
        raise LaunchError(
            f"--topology={topology!r}: expected v4:AxBxC, v5e:AxB, v5p:AxBxC or v6e:AxB"
        )
    chips = math.prod(sizes)
    alone = 8 if generation.dimensions == 2 else 4  # up to so many chips sit on one host
    if chips > alone and chips % 4:
        raise LaunchError(f"--topology={topology!r}: expected a multiple of 4 chips, not {chips}")
    return Slice(generation, shape, chips, hosts=1 if chips <= alone else chips // 4)
