"""What a step of a recipe costs, from its settings alone: environments, tokens, operations."""

import dataclasses

from ml_collections import ConfigDict

from spade_jax.models import ModelConfig, flops


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Mean lengths, as shares of a role's context.

    Attributes:
        design, play: of the designer's and the agent's context that a reply or an episode fills.
        sampled: of those tokens, what the model writes.
        attempts: designs per slot.
    """

    design: float
    play: float
    sampled: float
    attempts: float


ASSUMED = Lengths(design=0.5, play=0.25, sampled=0.5, attempts=2.0)  # as in aot/table.py


def most(config: ConfigDict) -> Lengths:
    """No step costs more: full contexts, every attempt used."""
    return Lengths(1.0, 1.0, 1.0, config.curriculum.max_attempts)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Means over the steps of a regeneration epoch.

    Attributes:
        designs, plays: sampled, both arms of the plays together.
        environments: that live.
        sampled, read: tokens that the model writes, and that it reads for it.
        trained: tokens of the rows that are trained.
        sampling_flops, learning_flops: of matrix products; the learner's with what it computes a
            second time.
    """

    designs: float
    environments: float
    plays: float
    sampled: float
    read: float
    trained: float
    sampling_flops: float
    learning_flops: float


def step_cost(config: ConfigDict, model: ModelConfig, lengths: Lengths) -> Cost:
    """Of one step at the given lengths."""
    curriculum, agent = config.curriculum, config.agent
    written = not curriculum.fixed_pool
    interval = curriculum.regen_interval
    designs = curriculum.num_envs * min(lengths.attempts, curriculum.max_attempts) / interval
    designs *= written
    plain = curriculum.num_envs * agent.plays_per_env
    hinted = curriculum.num_envs * agent.hint_plays_per_env / (interval if written else 1)
    design = lengths.design * config.sampler.designer.max_len
    play = lengths.play * config.sampler.agent.max_len
    sampling = (design, designs), (play, plain + hinted)  # tokens of a row, rows
    kept = designs if config.designer.train_invalid else curriculum.num_envs / interval * written
    learning = (
        (design, kept if config.designer.train else 0),
        (play, plain + (hinted if agent.train_hint_arm else 0)),
    )
    reference = bool(config.learner.kl)
    tokens = sum(length * rows for length, rows in sampling)
    return Cost(
        designs=designs,
        environments=curriculum.num_envs,
        plays=plain + hinted,
        sampled=tokens * lengths.sampled,
        read=tokens * (1 - lengths.sampled),
        trained=sum(length * rows for length, rows in learning),
        sampling_flops=sum(
            rows * flops.forward_flops(model, length, length / 2, length * lengths.sampled)
            for length, rows in sampling
        ),
        learning_flops=sum(
            rows * flops.gradient_flops(model, length, length / 2, reference)
            for length, rows in learning
        ),
    )
