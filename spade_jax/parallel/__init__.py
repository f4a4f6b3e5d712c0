from spade_jax.parallel.mesh import (
    AXES,
    RULES,
    MeshError,
    make_mesh,
    mesh_of,
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
    "mesh_of",
    "replicated",
    "sharding",
    "tree_shardings",
    "unbox",
]
