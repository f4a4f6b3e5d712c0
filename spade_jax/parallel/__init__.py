from spade_jax.parallel import collectives
from spade_jax.parallel.distributed import ClusterError, joined
from spade_jax.parallel.hosts import PLAIN, HostError, Hosts, Wire
from spade_jax.parallel.mesh import (
    AXES,
    ROW_AXES,
    RULES,
    MeshError,
    make_mesh,
    place,
    replicated,
    row_shards,
    sharding,
    to_host,
    tree_shardings,
    unbox,
)
from spade_jax.parallel.reshard import ToReplica, make_replicas

__all__ = [
    "AXES",
    "PLAIN",
    "ROW_AXES",
    "RULES",
    "ClusterError",
    "HostError",
    "Hosts",
    "MeshError",
    "ToReplica",
    "Wire",
    "collectives",
    "joined",
    "make_mesh",
    "make_replicas",
    "place",
    "replicated",
    "row_shards",
    "sharding",
    "to_host",
    "tree_shardings",
    "unbox",
]
