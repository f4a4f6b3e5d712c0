"""Losses as pure functions of per-token arrays."""

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class LossSettings:
    """Attributes:
    clip_low, clip_high: the ratio is clipped to [1 - clip_low, 1 + clip_high].
    old_logprobs: "recomputed" takes the learner's own log-probs as the old policy, "sampled"
        those stored at sampling time.
    importance_cap: upper bound of the truncated importance weight between the sampling policy
        and the policy at update time; only used with "recomputed".
    kl: weight of the k3 KL to the frozen reference; 0 needs no reference.
    entropy: weight of the entropy bonus.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    old_logprobs: str = "recomputed"
    importance_cap: float = 2.0
    kl: float = 0.0
    entropy: float = 0.0


def k3(logp: jax.Array, reference: jax.Array) -> jax.Array:
    """The low-variance estimate of KL(policy || reference) per token: e^d - d - 1 with
    d = reference - logp. Never negative."""
    difference = reference - logp
    return jnp.exp(difference) - difference - 1.0


def policy_loss(logp, entropy, reference, batch, settings: LossSettings):
    """Clipped policy-gradient loss (paper, section 5).

    Args:
        logp: `[R, T]` log-probs of the targets under the current policy.
        entropy: `[R, T]` entropy of the current policy.
        reference: `[R, T]` log-probs under the frozen reference, or None without KL.
        batch: `packing.Batch`.

    Returns:
        `(loss, statistics)`: sums over tokens weighted by `batch.weights`, which sum to 1 over the
        whole batch, so micro-batches add up exactly.
    """
    frozen = jax.lax.stop_gradient(logp)
    if settings.old_logprobs == "recomputed":
        old = frozen
        importance = jnp.minimum(jnp.exp(frozen - batch.logprobs), settings.importance_cap)
    else:
        old, importance = batch.logprobs, jnp.ones_like(frozen)
    ratio = jnp.exp(logp - old)
    clipped = jnp.clip(ratio, 1.0 - settings.clip_low, 1.0 + settings.clip_high)
    gain = jnp.minimum(ratio * batch.advantages, clipped * batch.advantages) * importance
    kl = jnp.zeros_like(logp) if reference is None else k3(logp, reference)
    loss = -gain + settings.kl * kl - settings.entropy * entropy
    statistics = {
        "entropy": entropy,
        "kl": kl,
        "ratio": ratio,
        "clip_fraction": (ratio != clipped).astype(jnp.float32),
        "importance": importance,
        "importance_capped": (importance >= settings.importance_cap).astype(jnp.float32),
        "logprob_gap": jnp.abs(frozen - batch.logprobs),
        "weight": jnp.ones_like(logp),
    }
    sums = {name: jnp.sum(batch.weights * value) for name, value in statistics.items()}
    return jnp.sum(batch.weights * loss), sums


def supervised_loss(logp, entropy, reference, batch, settings: LossSettings):
    """Weighted negative log-likelihood of the targets; `reference` and `settings` are unused."""
    del reference, settings
    sums = {"entropy": jnp.sum(batch.weights * entropy), "weight": jnp.sum(batch.weights)}
    return -jnp.sum(batch.weights * logp), sums


LOSSES = {"policy": policy_loss, "supervised": supervised_loss}
