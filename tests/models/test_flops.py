"""The formulas against XLA's count of unrolled programs."""

import jax
import jax.numpy as jnp
import pytest

from spade_jax import models, parallel
from spade_jax.models import flops
from spade_jax.rl import Learner, LossSettings, OptimizerSettings

ROWS, LENGTH = 2, 64
SHAPE = {
    "num_layers": 3, "scan_unroll": 3, "d_model": 128, "num_heads": 8, "num_kv_heads": 2,
    "head_dim": 32, "vocab_size": 512, "remat": "none",
}  # fmt: skip
DENSE = models.preset("tiny", d_ff=384, **SHAPE)
# The reference computes every expert, as a model would in which each token visits all of them.
MOE = models.preset(
    "tiny", num_experts=4, experts_per_token=4, d_expert=96, experts="dense", **SHAPE
)


def counted(lowered) -> float:
    """XLA's, before anything is optimised away."""
    return lowered.cost_analysis()["flops"]


@pytest.mark.parametrize("model", [DENSE, MOE], ids=["dense", "experts"])
def test_forward_flops_are_xlas(model):
    def forward(params, tokens):
        hidden = models.hidden_packed(model, params, tokens, tokens, jnp.ones_like(tokens))
        return models.logits(model, params, hidden)

    params = jax.eval_shape(lambda: parallel.unbox(models.init(model, jax.random.key(0))))
    tokens = jax.ShapeDtypeStruct((ROWS, LENGTH), jnp.int32)
    found = counted(jax.jit(forward).lower(params, tokens))
    count = ROWS * LENGTH
    # The reference looks at the whole row and masks; norms and the like are the rest.
    assert flops.forward_flops(model, count, LENGTH, count) == pytest.approx(found, rel=0.06)


@pytest.mark.parametrize("kl", [0.0, 0.1])
@pytest.mark.parametrize("remat", ["none", "full"])
def test_gradient_flops_are_xlas(kl, remat):
    model = models.preset("tiny", d_ff=384, **{**SHAPE, "remat": remat})
    mesh = parallel.make_mesh({}, jax.devices()[:1])
    learner = Learner(model, mesh, "policy", LossSettings(kl=kl), OptimizerSettings(1e-3))
    found = counted(learner.lower_gradients(ROWS, LENGTH))
    wanted = flops.gradient_flops(model, ROWS * LENGTH, LENGTH, bool(kl))
    assert wanted == pytest.approx(found, rel=0.06)


def test_a_mixture_counts_the_experts_that_a_token_visits():
    one, two = (
        models.preset("qwen3_30b_a3b", experts_per_token=count, num_layers=1) for count in (1, 2)
    )
    more = flops.forward_flops(two, 10, 0, 0) - flops.forward_flops(one, 10, 0, 0)
    assert more == 10 * 2 * 3 * 2048 * 768


def test_forward_flops_are_two_for_each_parameter_of_a_product():
    model = models.preset("qwen3_8b")
    parameters = model.num_layers * (
        4096 * 128 * (32 + 8 + 8) + 32 * 128 * 4096 + 3 * 4096 * 12_288
    ) + 4096 * 151_936
    assert flops.forward_flops(model, 1, 0, 1) == 2 * parameters
