"""The two jitted programs of the sampler. Every shape is fixed when the engine is built."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from spade_jax import models, parallel


class DecodeInputs(NamedTuple):
    """What a decode dispatch needs to know about each of the S slots.

    Attributes:
        token: `[S]` int32, the newest token, not yet in the cache.
        position: `[S]` int32, its position in the episode.
        budget: `[S]` int32, tokens that the slot may still sample; 0 for an idle slot.
        seed: `[S]` uint32, the request's noise seed.
        temperature: `[S]` fp32; 0 is greedy.
        stop: `[S, K]` int32 stop ids, padded with -1.
    """

    token: jax.Array
    position: jax.Array
    budget: jax.Array
    seed: jax.Array
    temperature: jax.Array
    stop: jax.Array


class DecodeOutputs(NamedTuple):
    """`tokens`, `logprobs` `[S, chunk]`, of which the first `count` `[S]` are sampled; `stopped`
    `[S]` says whether the last one is a stop id."""

    tokens: jax.Array
    logprobs: jax.Array
    count: jax.Array
    stopped: jax.Array


def sample(logits, seed, position, temperature) -> tuple[jax.Array, jax.Array]:
    """One token per row from softmax(logits / temperature), with its log-prob under that policy.

    The noise depends on (request seed, position) only, so neither the slot nor the neighbours
    change what a request samples. At temperature 0 the token is the argmax and the log-prob that of
    temperature 1.

    Args:
        logits: `[S, V]` fp32.
        seed: `[S]` uint32.
        position: `[S]` int32.
        temperature: `[S]` fp32.
    """
    logp = jax.nn.log_softmax(logits / jnp.where(temperature > 0, temperature, 1.0)[:, None])
    keys = jax.vmap(lambda s, p: jax.random.fold_in(jax.random.key(s), p))(seed, position)
    noise = jax.vmap(lambda key: jax.random.gumbel(key, logits.shape[1:]))(keys)
    noise = jnp.where(temperature[:, None] > 0, noise, 0.0)
    token = jnp.argmax(logp + noise, axis=-1).astype(jnp.int32)
    return token, jnp.take_along_axis(logp, token[:, None], axis=-1)[:, 0]


def _prefill(config, params, cache, slots, tokens, positions):
    """Writes a chunk of known tokens, `[R, C]`, into the cache rows `slots` `[R]`."""
    return models.hidden_cached(config, params, tokens, positions, cache, slots)[1]


def _decode(config, chunk, params, cache, inputs: DecodeInputs):
    """Samples up to `chunk` tokens in every slot with a budget; ends early when none is left."""
    length, slots = cache["k"].shape[3], inputs.token.shape[0]
    outputs = DecodeOutputs(
        tokens=jnp.zeros((slots, chunk), jnp.int32),
        logprobs=jnp.zeros((slots, chunk), jnp.float32),
        count=jnp.zeros(slots, jnp.int32),
        stopped=jnp.zeros(slots, bool),
    )

    def running(outputs):
        return ~outputs.stopped & (outputs.count < inputs.budget)

    def more(carry):
        step, _, _, outputs = carry
        return (step < chunk) & running(outputs).any()

    def one(carry):
        step, token, cache, outputs = carry
        active = running(outputs)
        here = inputs.position + step
        position = jnp.where(active, here, length)[:, None]
        hidden, cache = models.hidden_cached(config, params, token[:, None], position, cache)
        logits = models.logits(config, params, hidden[:, 0])
        token, logprob = sample(logits, inputs.seed, here + 1, inputs.temperature)
        outputs = DecodeOutputs(
            tokens=outputs.tokens.at[:, step].set(token),
            logprobs=outputs.logprobs.at[:, step].set(logprob),
            count=outputs.count + active,
            stopped=outputs.stopped | active & (token[:, None] == inputs.stop).any(axis=1),
        )
        return step + 1, token, cache, outputs

    _, _, cache, outputs = jax.lax.while_loop(more, one, (0, inputs.token, cache, outputs))
    return cache, outputs


class Programs:
    """`prefill(params, cache, slots, tokens, positions) -> cache` and
    `decode(params, cache, inputs) -> (cache, outputs)`; both consume the cache they are given."""

    def __init__(self, config: models.ModelConfig, mesh, num_slots: int, length: int, chunk: int):
        rows = parallel.sharding(mesh, None, "slots", "kv_heads", None, None)
        cache = {"k": rows, "v": rows}
        self.empty_cache = jax.jit(
            lambda: models.init_cache(config, num_slots, length), out_shardings=cache
        )
        self.prefill = jax.jit(
            functools.partial(_prefill, config), donate_argnums=1, out_shardings=cache
        )
        self.decode = jax.jit(
            functools.partial(_decode, config, chunk),
            donate_argnums=1,
            out_shardings=(cache, parallel.replicated(mesh)),
        )

    def compiles(self) -> int:
        """Distinct shapes compiled so far: 2 after warm-up and for ever."""
        return self.prefill._cache_size() + self.decode._cache_size()
