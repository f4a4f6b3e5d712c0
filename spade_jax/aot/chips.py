"""What one chip of each kind holds and does."""

import dataclasses

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """Attributes:
    hbm: bytes that the compiler lets a program use; a little below what is sold, of which the
        runtime keeps some. None: as much as there is.
    flops: peak bf16 operations per second.
    hbm_bandwidth: bytes per second.
    ici_bandwidth: bytes per second that a chip sends to its neighbours, all links together.
    """

    hbm: float | None
    flops: float
    hbm_bandwidth: float
    ici_bandwidth: float


# Peak operations and bandwidths: Google's pages on each generation,
# https://docs.cloud.google.com/tpu/docs/ v4, v5e, v5p, v6e (16, 95, 32 and 32 GB of HBM are sold).
# Memory: the limit that libtpu 0.0.42 names when a program exceeds it.
CHIPS = {
    "v4": Chip(30.75 * GIB, 275e12, 1.2e12, 300e9),
    "v5e": Chip(15.75 * GIB, 197e12, 819e9, 200e9),
    "v5p": Chip(95.74 * GIB, 459e12, 2765e9, 600e9),
    "v6e": Chip(31.25 * GIB, 918e12, 1640e9, 400e9),
    "cpu": Chip(None, 1e12, 1e11, 1e10),  # stands for any: see topology.py
}
