"""Engines of a tiny model, and what its learner says of the same tokens."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from spade_jax import models, parallel
from spade_jax.sampler import Engine, EngineSettings, Request

CONFIG = models.preset("tiny", num_layers=2, vocab_size=160, d_model=64, d_ff=96)
SETTINGS = EngineSettings(
    num_slots=6,
    max_len=48,
    page=8,
    prefill_tokens=20,
    prefill_chunks=(3, 5),
    decode_rows=4,
    decode_chunk=4,
)
STOP = 3
MOE = models.preset(
    "tiny", num_layers=2, vocab_size=160, d_model=64, d_ff=96, num_experts=8,
    experts_per_token=2, d_expert=32,
)  # fmt: skip


def opened(params, **changes):
    settings = dataclasses.replace(SETTINGS, **changes)
    engine = Engine(CONFIG, parallel.make_mesh({}, jax.devices()[:1]), settings)
    engine.load(params, 7)
    return engine


def gib(config, pages):
    return pages * SETTINGS.page * models.cache.position_bytes(config) / 2**30


def request(seed, length=9, budget=12, temperature=1.0, stop=(STOP,)):
    tokens = np.random.default_rng(seed).integers(4, 160, length).tolist()
    return Request(tokens, budget, seed, temperature, stop)


def drain(engine, handles):
    """The next finished turn of each handle."""
    turns = {}
    while len(turns) < len(handles):
        for turn in engine.advance():
            turns[turn.handle] = turn
    return [turns[handle] for handle in handles]


def run(engine, requests):
    handles = [engine.submit(item) for item in requests]
    turns = {}
    while len(turns) < len(handles):
        for turn in engine.advance():
            turns[turn.handle] = turn
            turn.handle.close()
    return [turns[handle] for handle in handles]


@functools.partial(jax.jit, static_argnums=0)
def plain_logits(config, params, ids, count):
    """`[64, V]`: one forward pass over `count` ids in a padded row, as the learner does it."""
    positions = jnp.arange(64)
    segments = (positions < count).astype(jnp.int32)
    hidden = models.hidden_packed(config, params, ids[None], positions[None], segments[None])
    return models.logits(config, params, hidden)[0]


def forward(params, ids, config=CONFIG):
    """Logits `[len(ids), V]`."""
    padded = np.zeros(64, np.int32)
    padded[: len(ids)] = ids
    return np.asarray(plain_logits(config, params, padded, len(ids)))[: len(ids)]


def learner_logprobs(params, prompt, sampled, temperature=1.0, config=CONFIG):
    logits = forward(params, [*prompt, *sampled], config)
    logp = jax.nn.log_softmax(logits / temperature)
    start = len(prompt) - 1
    return np.asarray(logp)[np.arange(start, start + len(sampled)), np.asarray(sampled)]
