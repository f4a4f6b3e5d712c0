"""What a step of a recipe costs, from its settings alone: environments, tokens, operations."""

import dataclasses
from collections.abc import Iterator

from ml_collections import ConfigDict

from spade_jax.cycle import source_name
from spade_jax.models import ModelConfig, flops


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Mean lengths, as shares of what there is room for.

    Attributes:
        design, play: of the designer's and the agent's context that a reply or an episode fills.
        sampled: of those tokens, what the model writes.
        answer: of its token limit that an answer about an environment takes.
        attempts: designs per slot.
        repaired: of the repair turns, those that a design takes.
        sound: of designs and repairs, those that the sandbox accepts, so that a model is asked.
    """

    design: float
    play: float
    sampled: float
    answer: float
    attempts: float
    repaired: float
    sound: float


ASSUMED = Lengths(
    design=0.5, play=0.25, sampled=0.5, answer=0.5, attempts=2.0, repaired=0.5, sound=0.5
)


def most(config: ConfigDict) -> Lengths:
    """No step costs more: full contexts, every attempt and every repair used."""
    return Lengths(1.0, 1.0, 1.0, 1.0, config.curriculum.max_attempts, 1.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Means over the steps of a regeneration epoch. What a pool costs once is not in it.

    Attributes:
        designs, plays: sampled, repairs among the first, both arms and what has retired among the
            second.
        environments: that live.
        questions: to the model itself, about environments: hints, audits and judgements.
        sampled, read: tokens that the model writes, and that it reads for it.
        trained: tokens of the rows that are trained.
        sampling_flops, learning_flops: of matrix products; the learner's with what it computes a
            second time.
    """

    designs: float
    environments: float
    plays: float
    questions: float
    sampled: float
    read: float
    trained: float
    sampling_flops: float
    learning_flops: float


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Alike ones: how many of them a step has, and the tokens that one reads and writes."""

    count: float
    read: float
    written: float

    @property
    def length(self) -> float:
        return self.read + self.written


def step_cost(config: ConfigDict, model: ModelConfig, lengths: Lengths) -> Cost:
    """Of one step at the given lengths."""
    agent, source = config.agent, source_name(config.curriculum)
    slots, attempts = _designs(config, lengths)
    answers = attempts * (1 + config.designer.repair_turns * lengths.repaired)
    environments = config.curriculum.num_envs
    plain = (environments + config.curriculum.replay_envs) * agent.plays_per_env
    # A pool's environment plays both arms whenever it is drawn; one of "adaptive" has no hint.
    arms = {"designer": slots, "adaptive": 0.0}.get(source, environments)
    hinted = arms * agent.hint_plays_per_env
    design = lengths.design * config.sampler.designer.max_len
    play = lengths.play * config.sampler.agent.max_len
    questions = list(_questions(config, lengths, slots, answers))
    sampling = [
        _Rows(answers, design * (1 - lengths.sampled), design * lengths.sampled),
        _Rows(plain + hinted, play * (1 - lengths.sampled), play * lengths.sampled),
        *questions,
    ]
    kept = attempts if config.designer.train_invalid else slots
    learning = (
        (design, kept if config.designer.train else 0),
        (play, plain + (hinted if agent.train_hint_arm else 0)),
    )
    reference = bool(config.learner.kl)
    return Cost(
        designs=answers,
        environments=environments,
        plays=plain + hinted,
        questions=sum(rows.count for rows in questions),
        sampled=sum(rows.count * rows.written for rows in sampling),
        read=sum(rows.count * rows.read for rows in sampling),
        trained=sum(length * count for length, count in learning),
        sampling_flops=sum(
            rows.count * flops.forward_flops(model, rows.length, rows.length / 2, rows.written)
            for rows in sampling
        ),
        learning_flops=sum(
            count * flops.gradient_flops(model, length, length / 2, reference)
            for length, count in learning
        ),
    )


def _designs(config: ConfigDict, lengths: Lengths) -> tuple[float, float]:
    """Slots that a step fills, and designs tried for them; a pool's are written once, or never."""
    section = config.curriculum
    if source_name(section) != "designer":
        return 0.0, 0.0
    slots = section.num_envs / section.regen_interval
    return slots, slots * min(lengths.attempts, section.max_attempts)


def _questions(
    config: ConfigDict, lengths: Lengths, slots: float, answers: float
) -> Iterator[_Rows]:
    """What the model is asked about environments, each time shown the source as it was written."""
    sampler, designer = config.sampler, config.designer
    source = lengths.design * lengths.sampled * sampler.designer.max_len
    play = lengths.play * sampler.agent.max_len

    def rows(count: float, shown: float, context: int, limit: int) -> _Rows:
        written = lengths.answer * limit
        return _Rows(count, min(shown, context - written), written)

    asked = answers * lengths.sound
    for section, on in ((config.hints, True), (config.audit, config.audit.enabled)):
        if on and section.source == "self":
            yield rows(asked, source, sampler.designer.max_len, section.max_new_tokens)
    if designer.self_judge:
        yield rows(slots, source + play, sampler.agent.max_len, designer.self_judge_tokens)
