from spade_jax.parallel.mesh import (
    AXES,
    RULES,
    MeshError,
    make_mesh,
    replicated,
    sharding,
    tree_shardings,
    unbox,
)

__all__ = [
    "AXES",
    "RULES",
    "MeshError",
    "make_mesh",
    "replicated",
    "sharding",
    "tree_shardings",
    "unbox",
]
