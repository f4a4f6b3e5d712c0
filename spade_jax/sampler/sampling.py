"""From logits to tokens: temperature, top-k, top-p, one uniform number per token."""

import jax
import jax.numpy as jnp

BLOCK = 64  # tokens whose probabilities are summed first


def sample(logits, seed, number, temperature) -> tuple[jax.Array, jax.Array]:
    """One token per row from softmax(logits / temperature), with its log-prob under that policy.

    The noise depends on (request seed, number) only, so neither the slot nor the neighbours change
    what a request samples. At temperature 0 the token is the argmax and the log-prob that of
    temperature 1. The token is found by inverting the distribution function, first over blocks of
    tokens: a noise number for each of V tokens would cost twenty times as much on CPU. The one
    number has 23 bits, so tokens less likely than about 1e-7 come a little too often or too rarely.

    Args:
        logits: `[S, V]` fp32; minus infinity for a token that must not be.
        seed: `[S]` uint32.
        number: `[S]` int32, which of the request's noise is used: one for each token.
        temperature: `[S]` fp32.
    """
    rows, vocab = logits.shape
    logits = logits / jnp.where(temperature > 0, temperature, 1.0)[:, None]
    top = logits.max(axis=-1, keepdims=True)
    weights = jnp.exp(logits - top)
    blocks = jnp.pad(weights, ((0, 0), (0, -vocab % BLOCK))).reshape(rows, -1, BLOCK)
    masses = blocks.sum(axis=-1)  # [S, V / BLOCK]
    sums = jnp.cumsum(masses, axis=-1)
    total = sums[:, -1]

    keys = jax.vmap(lambda s, p: jax.random.fold_in(jax.random.key(s), p))(seed, number)
    target = jax.vmap(jax.random.uniform)(keys) * total
    block, rest = _invert(masses, sums, target)
    inside = jnp.take_along_axis(blocks, block[:, None, None], axis=1)[:, 0]  # [S, BLOCK]
    offset, _ = _invert(inside, jnp.cumsum(inside, axis=-1), rest)
    token = jnp.where(temperature > 0, block * BLOCK + offset, jnp.argmax(logits, axis=-1))
    token = token.astype(jnp.int32)
    chosen = jnp.take_along_axis(logits, token[:, None], axis=-1) - top
    return token, chosen[:, 0] - jnp.log(total)


def _invert(masses, sums, target) -> tuple[jax.Array, jax.Array]:
    """The first index with any mass whose running sum exceeds the target, and what is left of the
    target there.

    Running sums of many fp32 numbers need neither rise nor stand still where they should, hence the
    look at the masses. If rounding puts the target above every sum, the last index with mass it is.
    """
    some = masses > 0
    beyond = some & (sums > target[:, None])
    last = masses.shape[-1] - 1 - jnp.argmax(some[:, ::-1], axis=-1)
    index = jnp.where(beyond.any(axis=-1), jnp.argmax(beyond, axis=-1), last)
    before = jnp.take_along_axis(sums, jnp.maximum(index - 1, 0)[:, None], axis=-1)[:, 0]
    return index, jnp.maximum(target - jnp.where(index > 0, before, 0.0), 0.0)


def truncate(logits, temperature, top_k, top_p) -> jax.Array:
    """Logits with minus infinity outside the `top_k` likeliest tokens, then outside the smallest
    set of those whose probabilities reach `top_p`. Tokens as likely as the last one stay.

    Args:
        logits: `[S, V]` fp32.
        temperature: `[S]`; `top_p` is of the distribution at that temperature.
        top_k: `[S]` int32; 0 keeps all.
        top_p: `[S]` fp32 in (0, 1]; 1 keeps all.
    """
    vocab = logits.shape[-1]
    ordered = jnp.sort(logits, axis=-1)[:, ::-1]
    kept = jnp.where(top_k > 0, jnp.minimum(top_k, vocab), vocab)[:, None]
    scaled = ordered / jnp.where(temperature > 0, temperature, 1.0)[:, None]
    scaled = jnp.where(jnp.arange(vocab) < kept, scaled, -jnp.inf)
    probabilities = jax.nn.softmax(scaled, axis=-1)
    before = jnp.cumsum(probabilities, axis=-1) - probabilities  # of all likelier tokens
    inside = (jnp.arange(vocab) < kept) & ((before < top_p[:, None]) | (top_p >= 1.0)[:, None])
    count = jnp.maximum(inside.sum(axis=-1), 1)
    least = jnp.take_along_axis(ordered, count[:, None] - 1, axis=-1)
    return jnp.where(logits >= least, logits, -jnp.inf)
