"""Log-probs and entropies of targets from hidden states, a chunk of positions at a time."""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from spade_jax import models, parallel
from spade_jax.parallel import collectives


def token_logprobs(
    config: models.ModelConfig, params: models.Params, hidden, targets, temperature, chunk: int,
    mesh: Mesh,
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """Log-prob of each target and entropy under softmax(logits / temperature).

    Every device has the logits of its rows and its part of the vocabulary, for `chunk` positions at
    a time; they are recomputed in the backward pass. The head's gradient is summed where its part
    of the head is, and crosses devices once.

    Args:
        hidden: `[R, T, D]`, rows split over the mesh.
        targets: `[R, T]` int32.
        temperature: scalar, of the sampling policy; 0 counts as 1.
        chunk: most positions of a chunk, on each device.

    Returns:
        `(logp [R, T], entropy [R, T])`, fp32, nats.
    """
    temperature = jnp.where(temperature > 0, temperature, 1.0).astype(jnp.float32)
    rows = parallel.sharding(mesh, "batch").spec
    columns = parallel.sharding(mesh, "embed", "vocab").spec
    return collectives.over_mesh(
        functools.partial(_local, mesh, chunk), mesh, (rows, rows, columns, PartitionSpec()),
        (rows, rows),
    )(hidden, targets, models.head(config, params), temperature)  # fmt: skip


def _local(mesh, chunk, hidden, targets, head, temperature):
    """One device's part: `head` is `[D / fsdp, V / tensor]`."""
    dtype = hidden.dtype
    head = collectives.gather(mesh, "fsdp", head.astype(dtype), 0)
    head = head.astype(jnp.float32)  # in which the chunks' gradients add up
    first = collectives.index(mesh, "tensor") * head.shape[1]

    @jax.checkpoint
    def one(inputs):
        states, wanted = inputs
        logits = jnp.dot(states, head.astype(dtype), preferred_element_type=jnp.float32)
        logits = logits / temperature
        top = collectives.maximum(mesh, "tensor", logits.max(axis=-1))
        weights, index = jnp.exp(logits - top[:, None]), wanted - first
        mine = (index >= 0) & (index < head.shape[1])
        chosen = jnp.take_along_axis(logits, jnp.where(mine, index, 0)[:, None], axis=-1)[:, 0]
        parts = weights.sum(axis=-1), (weights * logits).sum(axis=-1), jnp.where(mine, chosen, 0)
        total, mean, chosen = collectives.shared_sum(mesh, "tensor", parts)
        normaliser = jnp.log(total) + top
        return chosen - normaliser, normaliser - mean / total

    states, wanted = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    count = -(-wanted.size // chunk)
    chunk = -(-wanted.size // count)
    padding = count * chunk - wanted.size
    states = jnp.pad(states, ((0, padding), (0, 0))).reshape(count, chunk, -1)
    wanted = jnp.pad(wanted, (0, padding)).reshape(count, chunk)
    logp, entropy = (out.reshape(-1)[: targets.size] for out in jax.lax.map(one, (states, wanted)))
    return logp.reshape(targets.shape), entropy.reshape(targets.shape)
