"""Small models of both kinds, a mesh of all axes, and rows to train them on."""

import numpy as np

from spade_jax import models
from spade_jax.rollout import Trajectory

DENSE = models.preset("tiny", num_layers=2, vocab_size=96, d_model=32, head_dim=8, d_ff=64)
MOE = models.preset(
    "tiny", num_layers=2, vocab_size=96, d_model=32, head_dim=8, num_experts=4,
    experts_per_token=2, d_expert=16, qk_norm=True,
)  # fmt: skip
SHARDED = {"data": 2, "fsdp": 2, "tensor": 2}


def rows(count=9, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        row = Trajectory()
        for _ in range(rng.integers(1, 4)):
            row.append_context(rng.integers(1, 96, rng.integers(1, 6)).tolist())
            length = int(rng.integers(1, 5))
            ids, logps = rng.integers(1, 96, length).tolist(), rng.uniform(-5, -4, length).tolist()
            row.append_sampled(ids, logps, 0)
        out.append(row)
    return out, rng.normal(size=count)
