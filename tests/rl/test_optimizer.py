"""The optimizers: which leaves Muon takes, and what its update looks like."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax import models, parallel
from spade_jax.models import matrix_axes
from spade_jax.rl import Learner, LossSettings, OptimizerSettings, pack, token_weights
from tests.rl.small import DENSE, MOE, SHARDED, rows

MUON = OptimizerSettings(1e-3, weight_decay=0.0, matrix_rate=1e-2)


def gradients_like(params, seed=0):
    leaves, tree = jax.tree.flatten(params)
    rng = np.random.default_rng(seed)
    return tree.unflatten([jnp.asarray(rng.normal(size=x.shape), jnp.float32) for x in leaves])


@pytest.mark.parametrize("config", [DENSE, MOE], ids=["dense", "moe"])
def test_muon_takes_the_blocks_matrices_and_adam_the_rest(config):
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    taken = {
        jax.tree_util.keystr(path): matrix_axes(path, leaf.ndim)
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    }
    for name, axes in taken.items():
        matrix = "blocks" in name and not any(word in name for word in ("norm", "router"))
        assert (axes is not None) == matrix, name
    assert taken["['blocks']['attention']['q']['kernel']"] == ((1,), (2, 3))
    assert taken["['blocks']['attention']['out']['kernel']"] == ((1, 2), (3,))
    dense, kernel = not config.num_experts, "['kernel']" if not config.num_experts else ""
    for name in ("gate", "down"):
        axes = taken[f"['blocks']['mlp']['{name}']{kernel}"]
        assert axes == (((1,), (2,)) if dense else ((2,), (3,)))


@pytest.mark.parametrize("config", [DENSE, MOE], ids=["dense", "moe"])
def test_muon_updates_are_nearly_orthogonal_and_of_the_rate_s_size(config):
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    optimizer = MUON.build()
    updates, _ = optimizer.update(gradients_like(params), optimizer.init(params), params)
    blocks = jax.tree.map(np.asarray, updates["blocks"])
    up = blocks["mlp"]["up"]
    matrices = [
        *(layer.reshape(32, -1) for layer in blocks["attention"]["q"]["kernel"]),
        *(layer.reshape(-1, 32) for layer in blocks["attention"]["out"]["kernel"]),
        *(up["kernel"] if config is DENSE else up[1]),
    ]
    for matrix in matrices:
        scale = MUON.matrix_rate * max(1, matrix.shape[1] / matrix.shape[0]) ** 0.5
        values = np.linalg.svd(matrix / scale, compute_uv=False)
        assert values.min() > 0.1 and 0.7 < np.median(values) <= values.max() < 1.5
    size = np.abs(np.asarray(updates["embedding"]))
    assert 1 < np.median(size) / MUON.learning_rate < 2  # Adam with Nesterov momentum


@pytest.mark.parametrize("config", [DENSE, MOE], ids=["dense", "moe"])
def test_a_sharded_muon_step_equals_an_unsharded_one(config):
    def stepped(shape):
        mesh = parallel.make_mesh(shape, jax.devices() if shape else jax.devices()[:1])
        engine = Learner(config, mesh, "supervised", LossSettings(), MUON, chunk=32)
        state = engine.init(jax.random.key(0))
        trajectories, _ = rows()
        weights = token_weights(trajectories, "token")
        (batch,) = pack(trajectories, [1.0] * len(trajectories), weights, 16, 64)
        before = jax.device_get(state.params)
        after = jax.device_get(engine.step(state, batch)[0].params)
        return jax.tree.leaves(jax.tree.map(np.subtract, after, before))

    for alone, sharded in zip(stepped({}), stepped(SHARDED), strict=True):
        # Newton's iterations amplify rounding.
        assert np.linalg.norm(alone - sharded) < 0.05 * np.linalg.norm(alone)
