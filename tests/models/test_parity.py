"""The transformer against checkpoints that torch and transformers evaluated, fp32."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from spade_jax import models, parallel
from spade_jax.models import attention, transformer
from tests.models import golden

TOLERANCE = 1e-4
CASES = [(name, {}) for name in golden.NAMES] + [("qwen3_moe", {"experts": "dense"})]
case = pytest.mark.parametrize("name,overrides", CASES)


def hidden_packed(config, params, ids, positions, segment_ids):
    kernels = models.choose_kernels(config, parallel.make_mesh({}, jax.devices()[:1]))
    return models.hidden_packed(config, params, ids, positions, segment_ids, kernels)


def packed(config, params, ids):
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)
    hidden = hidden_packed(config, params, ids, positions, jnp.ones_like(ids))
    return models.logits(config, params, hidden)


def logit_gap(config, params, want) -> float:
    """Largest difference from the reference's logits."""
    got = packed(config, params, jnp.asarray(want["ids"], jnp.int32))
    return float(np.abs(np.asarray(got) - want["logits"]).max())


@pytest.mark.parametrize("dialect", golden.DIALECTS)
@case
def test_logits_equal_the_reference(name, overrides, dialect):
    assert logit_gap(*golden.load(name, dialect, **overrides)) < TOLERANCE


@case
def test_left_padding_does_not_change_the_last_logits(name, overrides):
    config, params, want = golden.load(name, **overrides)
    ids, mask = jnp.asarray(want["pad_ids"], jnp.int32), jnp.asarray(want["pad_mask"], jnp.int32)
    positions = jnp.maximum(jnp.cumsum(mask, axis=1) - 1, 0)
    hidden = hidden_packed(config, params, ids, positions, mask)
    got = models.logits(config, params, hidden[:, -1])
    np.testing.assert_allclose(got, want["pad_logits_last"], rtol=0, atol=TOLERANCE)


@case
def test_greedy_decoding_through_the_cache_equals_the_reference(name, overrides):
    config, params, want = golden.load(name, **overrides)
    prompt = jnp.asarray(want["greedy_prompt"], jnp.int32)
    batch, start = prompt.shape
    steps = want["greedy_ids"].shape[1]
    assert steps == 32
    cache, rows = models.init_cache(config, batch, start + steps), jnp.arange(batch)

    @jax.jit
    def step(tokens, lengths, cache):
        recent = models.init_cache(config, *tokens.shape)
        hidden, recent = models.hidden_cached(config, params, tokens, lengths, cache, recent)
        return hidden, models.cache.put(cache, rows[:, None], lengths, recent)  # a page a row

    hidden, cache = step(prompt, jnp.zeros(batch, jnp.int32), cache)
    got = []
    for position in range(start, start + steps):
        token = jnp.argmax(models.logits(config, params, hidden[:, -1]), axis=-1)
        got.append(token)
        token = token[:, None].astype(jnp.int32)
        hidden, cache = step(token, jnp.full(batch, position), cache)
    np.testing.assert_array_equal(np.stack(got, axis=1), want["greedy_ids"])


@case
def test_loss_and_gradient_equal_the_reference(name, overrides):
    config, params, want = golden.load(name, **overrides)
    ids = jnp.asarray(want["ids"], jnp.int32)

    def loss(params):
        logp = jax.nn.log_softmax(packed(config, params, ids)[:, :-1])
        return -jnp.take_along_axis(logp, ids[:, 1:, None], -1).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    np.testing.assert_allclose(value, want["loss"], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(optax.tree.norm(gradient), want["grad_norm"], rtol=TOLERANCE)
    first = gradient["blocks"]["attention"]["q"]["kernel"][0].reshape(config.d_model, -1).T
    np.testing.assert_allclose(first[:8], want["grad_q0"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    "name,wrong",
    [(name, {"rope_theta": 10_000.0}) for name in golden.NAMES]
    + [(name, {"qk_norm": False}) for name in golden.NAMES if name.startswith("qwen3")]
    + [("qwen3_moe", {"norm_topk": False, "experts": impl}) for impl in ("dense", "ragged")]
    + [("qwen3_untied", {"tied": True}), ("qwen3_moe", {"tied": True})],
)
def test_a_wrong_setting_shows_in_the_logits(name, wrong):
    assert not logit_gap(*golden.load(name, **wrong)) < 10 * TOLERANCE


@pytest.mark.parametrize("name", [name for name in golden.NAMES if name.startswith("qwen3")])
def test_norm_after_the_rotation_shows_in_the_logits(name, monkeypatch):
    config, params, want = golden.load(name)
    rotate = attention.rotate

    class NormOfRotated(transformer.Norm):
        def __call__(self, x):
            if self.axis is None:  # q_norm and k_norm
                positions = jnp.broadcast_to(jnp.arange(x.shape[1]), x.shape[:2])
                x = rotate(x, positions, config.rope_theta)
            return super().__call__(x)

    monkeypatch.setattr(attention, "rotate", lambda x, positions, theta: x)
    monkeypatch.setattr(transformer, "Norm", NormOfRotated)
    assert not logit_gap(config, params, want) < 10 * TOLERANCE


@pytest.mark.parametrize("name", golden.NAMES)
def test_interleaved_rotation_shows_in_the_logits(name, monkeypatch):
    rotate = attention.rotate

    def interleaved(x, positions, theta):
        halves = jnp.concatenate([x[..., ::2], x[..., 1::2]], axis=-1)
        a, b = jnp.split(rotate(halves, positions, theta), 2, axis=-1)
        return jnp.stack([a, b], axis=-1).reshape(x.shape)

    monkeypatch.setattr(attention, "rotate", interleaved)
    assert not logit_gap(*golden.load(name)) < 10 * TOLERANCE


@pytest.mark.parametrize("name", golden.NAMES)
def test_query_heads_of_the_wrong_group_show_in_the_logits(name, monkeypatch):
    attend = attention.attend

    def strided(q, k, v, mask):
        """Query head h looks at key head h mod K instead of h div (H / K)."""
        order = np.arange(q.shape[2]).reshape(-1, k.shape[1]).T.reshape(-1)
        return attend(q[:, :, order], k, v, mask)[:, :, np.argsort(order)]

    monkeypatch.setattr(attention, "attend", strided)
    assert not logit_gap(*golden.load(name)) < 10 * TOLERANCE


@pytest.mark.parametrize("name", ["llama_tied", "qwen3_tied"])
def test_a_head_that_is_not_tied_shows_in_the_logits(name):
    config, params, want = golden.load(name)
    other = jax.random.normal(jax.random.key(0), (config.d_model, config.vocab_size))
    config = dataclasses.replace(config, tied=False)
    assert not logit_gap(config, params | {"head": other}, want) < 10 * TOLERANCE
