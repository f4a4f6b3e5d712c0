"""Arrays that should not cross chips whole: an embedding, a matrix of a layer."""

from collections.abc import Mapping

import jax

from spade_jax import models, parallel
from spade_jax.aot.collectives import Collective, elements


def whole(model: models.ModelConfig, collective: Collective) -> str:
    """What it moves as a whole; "" for neither. Arrays are known by their size alone."""
    vocabulary = model.vocab_size * model.d_model
    sizes = {elements(shape) for shape in collective.shapes}
    if max(sizes) >= vocabulary:
        return "embedding" if vocabulary in sizes else "more than an embedding"
    return " or ".join(name for name, size in _matrices(model).items() if size in sizes)


def reason(mesh: Mapping[str, int], collective: Collective) -> str:
    """Why it is right to move a weight whole on this mesh; "" where it is a fault of the
    sharding."""
    if mesh["tensor"] > 1 or collective.kind not in ("all-gather", "reduce-scatter"):
        return ""
    return "only fsdp splits it, and gathers what is used and scatters its gradient"


def _matrices(model: models.ModelConfig) -> dict[str, int]:
    """Elements of each matrix of one layer, by name; all its experts are one."""
    shapes = jax.eval_shape(lambda: parallel.unbox(models.init(model, jax.random.key(0))))
    named = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(shapes["blocks"]):
        names = [key.key for key in path if key.key != "kernel"]
        if names[-1] != "scale":
            named[".".join(names)] = leaf.size // model.num_layers
    return named
