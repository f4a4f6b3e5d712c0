"""The transformer against checkpoints that torch and transformers evaluated."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from spade_jax import models, parallel
from tests.models import golden

CASES = [(name, {}) for name in golden.NAMES] + [("qwen3_moe", {"moe_impl": "dense"})]
case = pytest.mark.parametrize("name,overrides", CASES)


def packed(config, params, ids):
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)
    hidden = models.hidden_packed(config, params, ids, positions, jnp.ones_like(ids))
    return models.logits(config, params, hidden)


@case
def test_logits_equal_the_reference(name, overrides):
    config, params, want = golden.load(name, **overrides)
    got = packed(config, params, jnp.asarray(want["ids"], jnp.int32))
    np.testing.assert_allclose(got, want["logits"], atol=1e-4)


@case
def test_left_padding_does_not_change_the_last_logits(name, overrides):
    config, params, want = golden.load(name, **overrides)
    ids, mask = jnp.asarray(want["pad_ids"], jnp.int32), jnp.asarray(want["pad_mask"], jnp.int32)
    positions = jnp.maximum(jnp.cumsum(mask, axis=1) - 1, 0)
    hidden = models.hidden_packed(config, params, ids, positions, mask)
    got = models.logits(config, params, hidden[:, -1])
    np.testing.assert_allclose(got, want["pad_logits_last"], atol=1e-4)


@case
def test_greedy_decoding_through_the_cache_equals_the_reference(name, overrides):
    config, params, want = golden.load(name, **overrides)
    prompt = jnp.asarray(want["greedy_prompt"], jnp.int32)
    batch, start = prompt.shape
    steps = want["greedy_ids"].shape[1]
    cache = models.init_cache(config, batch, start + steps)
    step = jax.jit(lambda *args: models.hidden_cached(config, params, *args))
    positions = jnp.broadcast_to(jnp.arange(start), prompt.shape)
    hidden, cache = step(prompt, positions, cache)
    got = []
    for position in range(start, start + steps):
        token = jnp.argmax(models.logits(config, params, hidden[:, -1]), axis=-1)
        got.append(token)
        token = token[:, None].astype(jnp.int32)
        hidden, cache = step(token, jnp.full((batch, 1), position), cache)
    np.testing.assert_array_equal(np.stack(got, axis=1), want["greedy_ids"])


@case
def test_loss_and_gradient_equal_the_reference(name, overrides):
    config, params, want = golden.load(name, **overrides)
    ids = jnp.asarray(want["ids"], jnp.int32)

    def loss(params):
        logp = jax.nn.log_softmax(packed(config, params, ids)[:, :-1])
        return -jnp.take_along_axis(logp, ids[:, 1:, None], -1).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    np.testing.assert_allclose(value, want["loss"], atol=1e-4)
    np.testing.assert_allclose(optax.tree.norm(gradient), want["grad_norm"], rtol=1e-4)
    first = gradient["blocks"]["attention"]["q"]["kernel"][0].reshape(config.d_model, -1).T
    np.testing.assert_allclose(first[:8], want["grad_q0"], atol=1e-4)


def test_cache_rows_in_any_slot_equal_the_packed_forward():
    config = models.preset("tiny", num_layers=2)
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    ids = jax.random.randint(jax.random.key(1), (3, 12), 0, config.vocab_size)
    positions = jnp.broadcast_to(jnp.arange(12), ids.shape)
    want = models.hidden_packed(config, params, ids, positions, jnp.ones_like(ids))
    cache, slots = models.init_cache(config, 6, 16), jnp.array([4, 0, 3])
    first, cache = models.hidden_cached(config, params, ids[:, :7], positions[:, :7], cache, slots)
    rest, cache = models.hidden_cached(config, params, ids[:, 7:], positions[:, 7:], cache, slots)
    np.testing.assert_allclose(jnp.concatenate([first, rest], 1), want, atol=1e-5)


def test_packed_segments_do_not_see_each_other():
    config = models.preset("tiny", num_layers=2)
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    ids = jax.random.randint(jax.random.key(1), (1, 10), 0, config.vocab_size)
    segments = jnp.array([[1] * 4 + [2] * 6])
    positions = jnp.array([[*range(4), *range(6)]])
    both = models.hidden_packed(config, params, ids, positions, segments)
    alone = models.hidden_packed(
        config, params, ids[:, 4:], positions[:, 4:], jnp.ones((1, 6), jnp.int32)
    )
    np.testing.assert_allclose(both[:, 4:], alone, atol=1e-5)


@pytest.mark.parametrize(
    "overrides,named",
    [
        ({"num_heads": 4, "num_kv_heads": 3}, "num_kv_heads"),
        ({"head_dim": 31}, "head_dim"),
        ({"num_experts": 4, "experts_per_token": 5}, "experts_per_token"),
        ({"layers": 3}, "layers"),
    ],
)
def test_impossible_shapes_are_refused_by_name(overrides, named):
    with pytest.raises(models.ModelError, match=named):
        models.preset("tiny", **overrides)
