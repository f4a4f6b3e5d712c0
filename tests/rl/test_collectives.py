"""What crosses devices in a gradient step, read from the compiled program."""

import re

import jax
import pytest

from spade_jax import models, parallel
from spade_jax.rl import Learner, LossSettings, OptimizerSettings
from spade_jax.rl.packing import empty

COLLECTIVE = re.compile(
    r"= (.*?) (?:all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)
ROWS, LENGTH, VOCAB, WIDTH = 8, 36, 1024, 32
MODEL = {
    "num_layers": 2, "vocab_size": VOCAB, "d_model": WIDTH, "num_heads": 4, "num_kv_heads": 2,
    "head_dim": 8, "d_ff": 48, "remat": "full", "scan_unroll": 1,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "experts_per_token": 2, "d_expert": 16}


def moved(config, sizes) -> set[tuple[int, ...]]:
    """Shapes that collectives give, of fp32 and int32 arrays."""
    learner = Learner(
        config, parallel.make_mesh(sizes), "policy", LossSettings(), OptimizerSettings(1e-3)
    )
    rows = parallel.sharding(learner.mesh, "batch", None)
    batch = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=rows), empty(ROWS, LENGTH)
    )
    lowered = learner._gradients.lower(learner.abstract().params, batch, 1.0, None)
    found = "".join(COLLECTIVE.findall(lowered.compile().as_text()))
    return {tuple(map(int, dims.split(","))) for dims in re.findall(r"\w+\[([\d,]+)\]", found)}


@pytest.mark.parametrize(
    "config,sizes",
    [
        (models.preset("tiny", **MODEL), {"data": 2, "fsdp": 2, "tensor": 2}),
        (models.preset("tiny", **MODEL, **EXPERTS), {"fsdp": 2, "tensor": 2, "expert": 2}),
    ],
    ids=["dense", "moe"],
)
def test_no_table_and_no_activations_of_all_rows_are_gathered(config, sizes):
    shapes = moved(config, sizes)
    assert (VOCAB // 2, WIDTH // 2) in shapes or (WIDTH // 2, VOCAB // 2) in shapes
    for shape in shapes:
        assert VOCAB not in shape, f"the whole vocabulary travels: {shape}"
        assert shape[:2] != (ROWS, LENGTH) and shape[0] != ROWS * LENGTH, f"all rows: {shape}"
