from spade_jax.aot.chips import CHIPS, Chip
from spade_jax.aot.report import Line, check
from spade_jax.aot.topology import AotError, Topology, open_topology

__all__ = ["CHIPS", "AotError", "Chip", "Line", "Topology", "check", "open_topology"]
