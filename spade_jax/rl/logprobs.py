"""Log-probs and entropies of targets from hidden states, a chunk of positions at a time."""

import jax
import jax.numpy as jnp

from spade_jax import models


def token_logprobs(
    config: models.ModelConfig, params: models.Params, hidden, targets, temperature, chunk: int
) -> tuple[jax.Array, jax.Array]:
    """Log-prob of each target and entropy under softmax(logits / temperature).

    Logits exist for `chunk` positions at a time only and are recomputed in the backward pass, so
    `[R, T, V]` is never held.

    Args:
        hidden: `[R, T, D]`.
        targets: `[R, T]` int32.
        temperature: scalar, of the sampling policy; 0 counts as 1.
        chunk: positions per chunk; the last one is padded.

    Returns:
        `(logp [R, T], entropy [R, T])`, fp32, nats.
    """
    temperature = jnp.where(temperature > 0, temperature, 1.0)

    @jax.checkpoint
    def one(inputs):
        states, wanted = inputs
        logp = jax.nn.log_softmax(models.logits(config, params, states) / temperature)
        entropy = -jnp.sum(jnp.exp(logp) * logp, axis=-1)
        return jnp.take_along_axis(logp, wanted[:, None], axis=-1)[:, 0], entropy

    states, wanted = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    padding = -wanted.size % chunk
    states = jnp.pad(states, ((0, padding), (0, 0))).reshape(-1, chunk, hidden.shape[-1])
    wanted = jnp.pad(wanted, (0, padding)).reshape(-1, chunk)
    logp, entropy = (out.reshape(-1)[: targets.size] for out in jax.lax.map(one, (states, wanted)))
    return logp.reshape(targets.shape), entropy.reshape(targets.shape)
