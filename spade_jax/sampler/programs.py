"""The jitted programs of the sampler. Every shape is known when the engine is built.

Those that move keys and values between pages and rows (`take`, `put`, `copy`) compute nothing;
those that compute (`prefill`, `decode`) never see a page, so that several of them can run side by
side. What `take` gives lives as long as its dispatch.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from spade_jax import models, parallel
from spade_jax.models import cache as kv
from spade_jax.sampler.sampling import sample, truncate


class DecodeInputs(NamedTuple):
    """What a decode dispatch needs to know about each of its R rows.

    Attributes:
        token: `[R]` int32, the newest token, not yet in the cache.
        length: `[R]` int32, tokens in the cache, which is the token's position.
        budget: `[R]` int32, tokens that the row may still sample; 0 for an idle row.
        seed: `[R]` uint32, the request's noise seed.
        noise: `[R]` int32, number of the noise of the first token that is sampled.
        temperature: `[R]` fp32; 0 is greedy.
        top_k, top_p: `[R]` int32 and fp32, see `sampling.truncate`.
        stop: `[R, K]` int32 stop ids, padded with -1.
    """

    token: jax.Array
    length: jax.Array
    budget: jax.Array
    seed: jax.Array
    noise: jax.Array
    temperature: jax.Array
    top_k: jax.Array
    top_p: jax.Array
    stop: jax.Array


class DecodeOutputs(NamedTuple):
    """`tokens`, `logprobs` `[R, chunk]`, of which the first `count` `[R]` are sampled; `stopped`
    `[R]` says whether the last one is a stop id."""

    tokens: jax.Array
    logprobs: jax.Array
    count: jax.Array
    stopped: jax.Array


class Programs:
    """One model's programs on one mesh.

    Rows and pages are split over the mesh's `ROW_AXES` into `shards`: a row's pages lie in its own
    shard and are numbered within it, so that nothing crosses devices but what the model's own
    products need. `take`, `put` and `copy` are those of `models.cache`; `prefill(params, past,
    tokens, lengths)` and `decode(params, past, inputs)` are `_prefill` and `_decode` below.
    """

    def __init__(
        self, config: models.ModelConfig, mesh: Mesh, pages: int, page: int, chunk: int,
        unstack: bool | None = None,
    ):  # fmt: skip
        """`pages`: of each shard, `page` positions each. `chunk`: most tokens of a decode.
        `unstack`: layer by layer, see `models.unstack`; None: on CPU only."""
        self._config = config
        self._unstack = mesh.devices.flat[0].platform == "cpu" if unstack is None else unstack
        leading = () if self._unstack else (None,)
        held = parallel.sharding(mesh, *leading, "slots", "kv_heads", None, None)
        rows = parallel.sharding(mesh, "slots").spec
        self.shards = parallel.row_shards(mesh)

        def moving(function, *others, donate=()):
            inside = jax.shard_map(
                function, mesh=mesh, in_specs=(held.spec, *others), out_specs=held.spec,
                check_vma=False,
            )  # fmt: skip
            return jax.jit(inside, donate_argnums=donate)

        self.take = moving(kv.take, rows)
        self.put = moving(kv.put, rows, rows, held.spec, donate=0)
        self.copy = moving(kv.copy, rows, rows, donate=0)
        self.empty_cache = jax.jit(
            lambda: models.init_cache(config, self.shards * pages, page, not self._unstack),
            out_shardings=held,
        )
        model = config, models.choose_kernels(config, mesh)
        self.prefill = jax.jit(functools.partial(_prefill, model), out_shardings=held)
        self.decode = jax.jit(
            functools.partial(_decode, model, chunk),
            out_shardings=(held, parallel.replicated(mesh)),
        )  # fmt: skip
        self._layers = jax.jit(models.unstack)

    def ready(self, params: models.Params) -> models.Params:
        """The parameters as the programs take them: in the dtype that they are used in, so that no
        step reads more than that, and stacked or by layer."""
        params = models.cast(self._config, params)
        return self._layers(params) if self._unstack else params

    def compiles(self) -> int:
        """Distinct programs compiled so far."""
        jitted = (self.take, self.put, self.copy, self.prefill, self.decode)
        return sum(function._cache_size() for function in jitted)


def _prefill(model, params, past, tokens, lengths) -> kv.Cache:
    """Keys and values of known tokens `[R, C]` that follow the `lengths` `[R]` of `past`."""
    config, kernels = model
    recent = models.init_cache(config, *tokens.shape, _stacked(past))
    return models.hidden_cached(
        config, params, tokens, lengths, past, recent, kernels=kernels
    )[1]


def _decode(model, chunk, params, past, inputs: DecodeInputs) -> tuple[kv.Cache, DecodeOutputs]:
    """Samples up to a chunk of tokens in every row with a budget; their keys and values."""
    (config, kernels), rows = model, inputs.token.shape[0]
    outputs = DecodeOutputs(
        tokens=jnp.zeros((rows, chunk), jnp.int32),
        logprobs=jnp.zeros((rows, chunk), jnp.float32),
        count=jnp.zeros(rows, jnp.int32),
        stopped=jnp.zeros(rows, bool),
    )
    recent = models.init_cache(config, rows, chunk, _stacked(past))
    policy = inputs.temperature, inputs.top_k, inputs.top_p
    narrow = ((inputs.top_k > 0) | (inputs.top_p < 1)).any()

    def running(outputs):
        return ~outputs.stopped & (outputs.count < inputs.budget)

    def more(carry):
        step, _, _, outputs = carry
        return (step < chunk) & running(outputs).any()

    def one(carry):
        step, token, recent, outputs = carry
        active = running(outputs)
        hidden, recent = models.hidden_cached(
            config, params, token[:, None], inputs.length, past, recent, step, kernels
        )
        logits = models.logits(config, params, hidden[:, 0])
        logits = jax.lax.cond(narrow, truncate, lambda logits, *_: logits, logits, *policy)
        token, logprob = sample(logits, inputs.seed, inputs.noise + step, inputs.temperature)
        outputs = DecodeOutputs(
            tokens=outputs.tokens.at[:, step].set(token),
            logprobs=outputs.logprobs.at[:, step].set(logprob),
            count=outputs.count + active,
            stopped=outputs.stopped | active & (token[:, None] == inputs.stop).any(axis=1),
        )
        return step + 1, token, recent, outputs

    _, _, recent, outputs = jax.lax.while_loop(more, one, (0, inputs.token, recent, outputs))
    return recent, outputs


def _stacked(cache) -> bool:
    return not isinstance(cache, tuple)
