from spade_jax.parallel import collectives
from spade_jax.parallel.mesh import (
    AXES,
    ROW_AXES,
    RULES,
    MeshError,
    make_mesh,
    replicated,
    row_shards,
    sharding,
    tree_shardings,
    unbox,
)

__all__ = [
    "AXES",
    "ROW_AXES",
    "RULES",
    "MeshError",
    "collectives",
    "make_mesh",
    "replicated",
    "row_shards",
    "sharding",
    "tree_shardings",
    "unbox",
]
