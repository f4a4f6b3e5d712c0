"""Arrays that should not cross chips whole: an embedding, a matrix of a layer."""

import math
from collections.abc import Mapping, Sequence

import jax

from spade_jax import models, parallel
from spade_jax.aot.collectives import Collective, elements, sides


def whole(model: models.ModelConfig, collective: Collective) -> str:
    """What it moves as a whole; "" for neither. Arrays are known by their shape alone."""
    vocabulary = model.vocab_size * model.d_model
    largest = max(map(elements, collective.shapes), default=0)
    if largest >= vocabulary:
        return "embedding" if largest == vocabulary else "more than an embedding"
    moved = {_plain(sides(shape)) for shape in collective.shapes}
    return " or ".join(name for name, forms in _matrices(model).items() if forms & moved)


def reason(mesh: Mapping[str, int], collective: Collective) -> str:
    """Why it is right to move a weight whole on this mesh; "" where it is a fault of the
    sharding."""
    if "replica" in mesh:
        return "every replica gets a copy"
    if mesh["tensor"] > 1 or collective.kind not in ("all-gather", "reduce-scatter"):
        return ""
    return "only fsdp splits it, and gathers what is used and scatters its gradient"


def _matrices(model: models.ModelConfig) -> dict[str, set[tuple[int, ...]]]:
    """The forms of each matrix of one layer, by name; all its experts are one."""
    shapes = jax.eval_shape(lambda: parallel.unbox(models.init(model, jax.random.key(0))))
    named = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(shapes["blocks"]):
        names = [key.key for key in path if key.key != "kernel"]
        if names[-1] != "scale":
            named[".".join(names)] = _forms(leaf.shape[1:])
    return named


def _forms(shape: Sequence[int]) -> set[tuple[int, ...]]:
    """The shape as it is, and with two sides that lie beside each other as one."""
    merged = (
        (*shape[:at], math.prod(shape[at : at + 2]), *shape[at + 2 :])
        for at in range(len(shape) - 1)
        if len(shape) > 2
    )
    return {_plain(form) for form in (shape, *merged)}


def _plain(shape: Sequence[int]) -> tuple[int, ...]:
    """In no order, as a compiler transposes what it likes, and without sides of 1."""
    return tuple(sorted(side for side in shape if side > 1))
