"""The optimizers: which leaves Muon takes, and what its update looks like."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax import models, parallel
from spade_jax.models import matrix_axes
from spade_jax.rl import Learner, LossSettings, OptimizerSettings, pack, token_weights
from tests.rl.test_learner import DENSE, MOE, SHARDED, assert_close, rows

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


def test_muon_updates_are_nearly_orthogonal_and_of_the_rate_s_size():
    params = parallel.unbox(models.init(DENSE, jax.random.key(0)))
    optimizer = MUON.build()
    updates, _ = optimizer.update(gradients_like(params), optimizer.init(params), params)
    query = np.asarray(updates["blocks"]["attention"]["q"]["kernel"][0]).reshape(32, -1)
    values = np.linalg.svd(query / MUON.matrix_rate, compute_uv=False)
    assert 0.5 < values.min() <= values.max() < 1.5
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
        return jax.device_get(engine.step(state, batch)[0].params)

    assert_close(stepped({}), stepped(SHARDED), atol=1e-3)  # 5 iterations amplify rounding
