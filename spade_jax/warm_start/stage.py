"""The supervised stage before self-play: a new model cannot know Python, a public one not what an
environment looks like here."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from ml_collections import ConfigDict

from spade_jax import models, seeding
from spade_jax.checkpoint import Checkpoints
from spade_jax.interrupt import StopRequest
from spade_jax.language import Language
from spade_jax.parallel import Hosts
from spade_jax.rl import Batch, Learner, LearnerState, LossSettings, OptimizerSettings, pack
from spade_jax.rollout import Trajectory
from spade_jax.state import Records, RunState
from spade_jax.warm_start.example import Example, WarmStartError, to_rows
from spade_jax.warm_start.prepare import WarmStart

CHUNK = 1024  # rows packed at once
REPORTS = 50  # of the loss, in the whole stage


def train(
    config: ConfigDict,
    language: Language,
    mesh,
    warm: WarmStart,
    report: Callable[[int, float], None],
    stop: StopRequest,
    hosts: Hosts | None = None,
) -> models.Params | None:
    """Trains on the examples, or takes up where an earlier call was interrupted.

    Args:
        report: called with (step, loss) now and then.
        stop: asked after every step; a stopped stage is saved and returns None, also after its
            last step.
        hosts: the processes that train together; by default one alone.

    Returns:
        The warm parameters; with no steps, those that the language starts from.
    """
    section = config.warm_start
    total = section.steps
    if not total:
        return language.params()
    learner = Learner(language.model, mesh, "supervised", LossSettings(), _optimizer(section))
    folder, keep = warm.folder / "checkpoints", config.checkpoint.keep
    with contextlib.closing(Checkpoints(folder, keep, hosts=hosts)) as checkpoints:
        stop.settle_first(checkpoints.settle)
        start, state = _start(checkpoints, learner, language)
        batches = _batches(config, language, warm) if start < total else iter(())
        for step, batch in enumerate(itertools.islice(batches, start, total), start=start + 1):
            state, statistics = learner.step(state, batch)
            if step % max(1, total // REPORTS) == 0 or step == total:
                report(step, float(statistics["loss"]))
            done, stopping = step == total, stop.requested()
            if done or stopping or step % section.save_every == 0:
                checkpoints.save(_run_state(state, step))
            if stopping:
                return None
    return state.params


def _start(
    checkpoints: Checkpoints, learner: Learner, language: Language
) -> tuple[int, LearnerState]:
    """The steps done so far and the state after them."""
    if checkpoints.latest() is None:
        return 0, learner.adopt(language.params())
    restored = checkpoints.restore(_run_state(learner.abstract(), 0))
    return restored.records.step, restored.learner


def _run_state(state: LearnerState, step: int) -> RunState:
    return RunState(state, None, Records(step=step))


def _optimizer(section: ConfigDict) -> OptimizerSettings:
    total = section.steps
    return OptimizerSettings(
        section.learning_rate, b2=0.98, weight_decay=0.01, warmup_steps=min(20, total // 4),
        decay_steps=max(1, total), matrix_rate=section.matrix_rate,
    )  # fmt: skip


def _batches(config: ConfigDict, language: Language, warm: WarmStart) -> Iterator[Batch]:
    """Endless batches in an order that is a function of the config alone.

    Every `designer_every`-th batch is the designer's, the others are the agent's: their rows have
    very different lengths, and attention pays for the longest. With rows of one role only, every
    batch is that role's.
    """
    streams = {
        role: _epochs(
            config, rows, config.learner[role].length,
            seeding.generator(config.seed, "batches", role),
        )
        for role, rows in _rows(config, language, warm.examples()).items()
        if rows
    }  # fmt: skip
    for step in itertools.count():
        role = "designer" if step % config.warm_start.designer_every == 0 else "agent"
        yield next(streams.get(role) or next(iter(streams.values())))


def _rows(
    config: ConfigDict, language: Language, examples: Sequence[Example]
) -> dict[str, list[Trajectory]]:
    """Token rows by the role whose rows of the learner hold them.

    Raises:
        WarmStartError: an example does not fit.
    """
    room = {role: config.learner[role].length + 1 for role in ("designer", "agent")}
    shorter, longer = sorted(room, key=lambda role: room[role])
    made: dict[str, list[Trajectory]] = {role: [] for role in room}
    for example in examples:
        role = example.role or shorter
        rows = to_rows(example, language.chats[role])
        if not example.role and max(len(row.tokens) for row in rows) > room[shorter]:
            role, rows = longer, to_rows(example, language.chats[longer])
        made[role] += rows
    for role, rows in made.items():
        longest = max((len(row.tokens) for row in rows), default=0)
        if longest > room[role]:
            larger = "" if config.model.checkpoint else (
                f", or a larger text.vocab_size={config.text.vocab_size}"
            )  # fmt: skip
            raise WarmStartError(
                f"learner.{role}.length={room[role] - 1}: a warm-start row has {longest} tokens;"
                f" expected at least {longest - 1}{larger}"
            )
    return made


def _epochs(
    config: ConfigDict, data: list[Trajectory], length: int, rng: np.random.Generator
) -> Iterator[Batch]:
    """Endless batches, every epoch in a new order. Sampled tokens of a batch weigh the same.

    The rows are shuffled again after packing, which puts the longest first: a short stage would see
    only the family with the longest programs.
    """
    size = max(1, config.warm_start.tokens // length)
    while True:
        order = rng.permutation(len(data))
        shuffled = [data[index] for index in order]
        for start in range(0, len(shuffled), CHUNK):
            part = shuffled[start : start + CHUNK]
            ones = [1.0] * len(part)
            for batch in pack(part, ones, ones, size, length, shuffle=rng):
                yield batch._replace(weights=_weights(batch, config.warm_start.context_weight))


def _weights(batch: Batch, context: float) -> np.ndarray:
    """1 for the assistant's tokens and `context` for what it reads, per assistant token.

    An observation such as "no 7" holds the rule's answer, so predicting it is practice too.
    """
    weights = np.where(batch.weights > 0, 1.0, context * (batch.segment_ids > 0))
    return (weights / max(1.0, batch.weights.sum())).astype(np.float32)
