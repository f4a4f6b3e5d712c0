"""The jitted programs of the sampler. Every shape is known when the engine is built."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from spade_jax import models, parallel
from spade_jax.models import cache as kv
from spade_jax.sampler.sampling import sample, truncate


class DecodeInputs(NamedTuple):
    """What a decode dispatch needs to know about each of its B rows.

    Attributes:
        slot: `[B]` int32, its cache row; the number of slots for an idle row.
        token: `[B]` int32, the newest token, not yet in the cache.
        length: `[B]` int32, tokens in the cache, which is the token's position.
        budget: `[B]` int32, tokens that the row may still sample; 0 for an idle row.
        seed: `[B]` uint32, the request's noise seed.
        temperature: `[B]` fp32; 0 is greedy.
        top_k, top_p: `[B]` int32 and fp32, see `sampling.truncate`.
        stop: `[B, K]` int32 stop ids, padded with -1.
    """

    slot: jax.Array
    token: jax.Array
    length: jax.Array
    budget: jax.Array
    seed: jax.Array
    temperature: jax.Array
    top_k: jax.Array
    top_p: jax.Array
    stop: jax.Array


class DecodeOutputs(NamedTuple):
    """`tokens`, `logprobs` `[B, chunk]`, of which the first `count` `[B]` are sampled; `stopped`
    `[B]` says whether the last one is a stop id."""

    tokens: jax.Array
    logprobs: jax.Array
    count: jax.Array
    stopped: jax.Array


class Programs:
    """One model's programs on one mesh. Those that take a cache consume it.

    The lengths of the past that programs read are `past_lengths`: 0, then powers of two times
    `LEAST_PAST`, up to a whole row.

    What is taken of the cache is a copy that lives as long as the dispatch: where that is all slots
    over long rows, it doubles the cache. Measured on CPU only so far.
    """

    LEAST_PAST = 128

    def __init__(
        self, config: models.ModelConfig, mesh, num_slots: int, length: int, chunk: int, slack: int
    ):
        """`slack`: most positions that one dispatch writes at or after a row's last token."""
        self._config, self._chunk = config, chunk
        self._unstack = mesh.devices.flat[0].platform == "cpu"
        self._every_row = num_slots
        row = parallel.sharding(mesh, None, "slots", "kv_heads", None, None)
        alone = parallel.sharding(mesh, "slots", "kv_heads", None, None)
        self._cache_sharding = alone if self._unstack else row
        self.past_lengths = _doubling(self.LEAST_PAST, length)
        self.empty_cache = jax.jit(
            lambda: models.init_cache(config, num_slots, length + slack, not self._unstack),
            out_shardings=self._cache_sharding,
        )
        outputs = (self._cache_sharding, parallel.replicated(mesh))
        self._prefill = jax.jit(
            functools.partial(_prefill, config), static_argnames="past", donate_argnums=1,
            out_shardings=self._cache_sharding,
        )  # fmt: skip
        self._decode = jax.jit(
            functools.partial(_decode, config, chunk), static_argnames=("past", "whole", "narrow"),
            donate_argnums=1, out_shardings=outputs,
        )  # fmt: skip
        self._copy = jax.jit(
            kv.copy, static_argnums=3, donate_argnums=0, out_shardings=self._cache_sharding
        )
        self._layers = jax.jit(models.unstack)

    def ready(self, params: models.Params) -> models.Params:
        """The parameters as the programs take them: on CPU by layer, see `models.unstack`."""
        return self._layers(params) if self._unstack else params

    def past_for(self, length: int) -> int:
        """The past that a row with `length` tokens in the cache reads."""
        return next(past for past in self.past_lengths if past >= length)

    def prefill(self, params, cache, slots, tokens, lengths, past: int):
        """Writes known tokens `[R, C]` behind the `lengths` `[R]` of the rows `slots` `[R]`."""
        return self._prefill(params, cache, slots, tokens, lengths, past=past)

    def decode(self, params, cache, inputs: DecodeInputs, past: int):
        """`(cache, DecodeOutputs)`: samples up to a chunk of tokens in every row with a budget."""
        whole = inputs.slot.shape[0] == self._every_row
        narrow = bool((inputs.top_k > 0).any() or (inputs.top_p < 1).any())
        return self._decode(params, cache, inputs, past=past, whole=whole, narrow=narrow)

    def copy(self, cache, source, target, past: int):
        """Copies the first `past` positions of rows `source` `[R]` to rows `target` `[R]`."""
        return self._copy(cache, source, target, past)

    def compiles(self) -> int:
        """Distinct programs compiled so far."""
        jitted = (self._prefill, self._decode, self._copy)
        return sum(function._cache_size() for function in jitted)


def _doubling(least: int, most: int) -> tuple[int, ...]:
    lengths = [0, least]
    while lengths[-1] < most:
        lengths.append(2 * lengths[-1])
    return (*lengths[:-1], most)


def _prefill(config, params, cache, slots, tokens, lengths, past):
    recent = models.init_cache(config, *tokens.shape, _stacked(cache))
    old = kv.take(cache, slots, past)
    _, recent = models.hidden_cached(config, params, tokens, lengths, old, recent)
    return kv.put(cache, slots, lengths, recent)


def _decode(config, chunk, params, cache, inputs: DecodeInputs, past, whole, narrow):
    """`whole`: the rows are all slots in order. `narrow`: some row has a top-k or top-p."""
    rows = inputs.token.shape[0]
    outputs = DecodeOutputs(
        tokens=jnp.zeros((rows, chunk), jnp.int32),
        logprobs=jnp.zeros((rows, chunk), jnp.float32),
        count=jnp.zeros(rows, jnp.int32),
        stopped=jnp.zeros(rows, bool),
    )
    old = kv.take(cache, None if whole else inputs.slot, past)
    recent = models.init_cache(config, rows, chunk, _stacked(cache))

    def running(outputs):
        return ~outputs.stopped & (outputs.count < inputs.budget)

    def more(carry):
        step, _, _, outputs = carry
        return (step < chunk) & running(outputs).any()

    def one(carry):
        step, token, recent, outputs = carry
        active = running(outputs)
        hidden, recent = models.hidden_cached(
            config, params, token[:, None], inputs.length, old, recent, step
        )
        logits = models.logits(config, params, hidden[:, 0])
        if narrow:
            logits = truncate(logits, inputs.temperature, inputs.top_k, inputs.top_p)
        position = inputs.length + step + 1
        token, logprob = sample(logits, inputs.seed, position, inputs.temperature)
        outputs = DecodeOutputs(
            tokens=outputs.tokens.at[:, step].set(token),
            logprobs=outputs.logprobs.at[:, step].set(logprob),
            count=outputs.count + active,
            stopped=outputs.stopped | active & (token[:, None] == inputs.stop).any(axis=1),
        )
        return step + 1, token, recent, outputs

    _, _, recent, outputs = jax.lax.while_loop(more, one, (0, inputs.token, recent, outputs))
    return kv.put(cache, inputs.slot, inputs.length, recent), outputs


def _stacked(cache) -> bool:
    return not isinstance(cache, tuple)
