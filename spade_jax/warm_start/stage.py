"""The supervised stage before self-play: a from-scratch model cannot know Python.

Everything it makes lies in WORKDIR/warm_start: the generated rows, the tokenizer and checkpoints,
so that an interrupted stage goes on where it was and several runs can share one warm start.
"""

import dataclasses
import itertools
import pathlib
import shutil
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from spade_jax import models, seeding, settings
from spade_jax.checkpoint import Checkpoints
from spade_jax.designer import verbatim_keys
from spade_jax.envs import library
from spade_jax.prompts import Prompts
from spade_jax.rl import Batch, Learner, LearnerState, LossSettings, OptimizerSettings, pack
from spade_jax.rollout import Trajectory
from spade_jax.state import Records, RunState
from spade_jax.text import (
    NUMBERS,
    SentencePieceTokenizer,
    TinyChat,
    Tokenizer,
    train_sentencepiece,
)
from spade_jax.warm_start import rows

CHUNK = 1024  # rows packed at once
# Settings that a warm start depends on, besides the seed.
SHAPES_IT = (
    "prompts", "model.", "text.", "warm_start.", "grounding.max_words", "memory.snippet",
    "learner.designer.length", "learner.agent.length",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """Attributes:
    tokenizer, chat: trained on the rows.
    sources: `verbatim_keys` of every source that the rows show the designer.
    """

    folder: pathlib.Path
    tokenizer: SentencePieceTokenizer
    chat: TinyChat
    sources: frozenset[str]


def prepare(config: ConfigDict, workdir: pathlib.Path, prompts: Prompts) -> WarmStart:
    """Rows and tokenizer under WORKDIR/warm_start, made once; or copied from another workdir."""
    folder = workdir / "warm_start"
    if config.warm_start.path and not folder.exists():
        _borrow(config, pathlib.Path(config.warm_start.path), folder)
    rows.generate(
        folder / "rows", seeding.derive(config.seed, "rows"), config.warm_start.designs,
        config.warm_start.episodes, config.warm_start.mixture,
    )  # fmt: skip
    model_file = folder / "tokenizer.model"
    if not model_file.exists():
        designer, agent = _conversations(config, folder, prompts)
        text = itertools.chain(rows.lines(designer), rows.lines(agent[: 2 * len(designer)]))
        atomic = [*NUMBERS, *library.idioms()]
        partial = model_file.with_suffix(".partial")
        train_sentencepiece(text, partial, config.text.vocab_size, atomic)
        partial.rename(model_file)
    tokenizer = SentencePieceTokenizer(model_file)
    sources = verbatim_keys(
        shown["source"]
        for design in rows.read(folder / "rows" / "designs.jsonl")
        for shown in (design, design["memory"])
        if shown
    )
    return WarmStart(folder, tokenizer, TinyChat(tokenizer), sources)


def _borrow(config: ConfigDict, lender: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies another workdir's warm start, whole or not at all; it may have another seed.

    Raises:
        WarmStartError: it is no warm start of these settings.
    """
    if not (lender / "warm_start" / "rows").is_dir() or not (lender / settings.FILE).is_file():
        raise rows.WarmStartError(f"warm_start.path={lender}: expected a workdir of this version")
    changed = [key for key in settings.differences(config, lender) if key.startswith(SHAPES_IT)]
    if changed:
        raise rows.WarmStartError(f"warm_start.path: {settings.describe(config, lender, changed)}")
    partial = folder.with_name("warm_start.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(lender / "warm_start", partial)
    partial.rename(folder)


def train(
    config: ConfigDict,
    model: models.ModelConfig,
    mesh,
    warm: WarmStart,
    prompts: Prompts,
    report: Callable[[int, float], None],
    stopped: Callable[[], bool],
) -> models.Params | None:
    """Trains on the rows, or takes up where an earlier call was interrupted.

    Args:
        report: called with (step, loss) now and then.
        stopped: asked after every step; true saves and returns None.

    Returns:
        The warm parameters.
    """
    section = config.warm_start
    total = section.steps
    learner = Learner(model, mesh, "supervised", LossSettings(), _optimizer(section))
    checkpoints = Checkpoints(warm.folder / "checkpoints", keep=1)
    state = learner.init(jax.random.key(seeding.derive(config.seed, "init")))
    state = state._replace(params=number_embeddings(state.params, warm.tokenizer))
    start = checkpoints.latest() or 0
    if start:
        state = checkpoints.restore(_run_state(state, 0)).learner
    if start < total:
        batches = itertools.islice(_batches(config, warm, prompts), start, total)
        for step, batch in enumerate(batches, start=start + 1):
            state, statistics = learner.step(state, batch)
            if step % 50 == 0 or step == total:
                report(step, float(statistics["loss"]))
            done, stopping = step == total, stopped()
            if done or stopping or step % section.save_every == 0:
                checkpoints.save(_run_state(state, step))
            if stopping and not done:
                checkpoints.close()
                return None
    checkpoints.close()
    return state.params


def number_embeddings(params: models.Params, tokenizer: Tokenizer) -> models.Params:
    """Starts the numbers' embeddings as waves of their value instead of noise.

    The idea is to spare a small model the discovery of the number line; single short runs with and
    without it did not settle how much it gives. The first dimensions hold cosines, then sines of
    2 pi n / period, periods 2.5 to 200; the scale stays that of the other embeddings, and training
    may change all of it.
    """
    embedding = np.array(params["embedding"])
    waves = embedding.shape[1] * 3 // 16
    values = np.arange(len(NUMBERS))[:, None]
    angles = 2 * np.pi * values / np.geomspace(2.5, 200.0, waves)
    features = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    ids = [tokenizer.encode(number)[0] for number in NUMBERS]
    embedding[ids, : 2 * waves] = features * embedding.std() * np.sqrt(2.0)
    return {**params, "embedding": jnp.asarray(embedding)}


def _run_state(state: LearnerState, step: int) -> RunState:
    return RunState(state, None, Records(step=step))


def _optimizer(section: ConfigDict) -> OptimizerSettings:
    total = section.steps
    return OptimizerSettings(
        section.learning_rate, b2=0.98, weight_decay=0.01, warmup_steps=min(20, total // 4),
        decay_steps=max(1, total), matrix_rate=section.matrix_rate,
    )  # fmt: skip


def _conversations(config, folder, prompts):
    return rows.conversations(
        folder / "rows", prompts, config.grounding.max_words, config.memory.snippet,
        seeding.derive(config.seed, "memory examples"),
    )  # fmt: skip


def _batches(config: ConfigDict, warm: WarmStart, prompts: Prompts) -> Iterator[Batch]:
    """Endless batches in an order that is a function of the config alone.

    Every `designer_every`-th batch is the designer's, the others are the agent's: their rows have
    very different lengths, and attention pays for the longest.
    """
    streams = {
        role: _epochs(
            config, _trajectories(config, warm, role, talks), config.learner[role].length,
            seeding.generator(config.seed, "batches", role),
        )
        for role, talks in zip(
            ("designer", "agent"), _conversations(config, warm.folder, prompts), strict=True
        )
    }  # fmt: skip
    for step in itertools.count():
        role = "designer" if step % config.warm_start.designer_every == 0 else "agent"
        yield next(streams[role])


def _trajectories(config, warm: WarmStart, role: str, talks) -> list[Trajectory]:
    """Token rows.

    Raises:
        WarmStartError: one does not fit a row of the learner.
    """
    made = [rows.to_trajectory(talk, warm.chat) for talk in talks]
    longest, room = max(len(row.tokens) for row in made), config.learner[role].length + 1
    if longest > room:
        raise rows.WarmStartError(
            f"learner.{role}.length={room - 1}: a warm-start row has {longest} tokens; expected at"
            f" least {longest - 1}, or a larger text.vocab_size={config.text.vocab_size}"
        )
    return made


def _epochs(
    config: ConfigDict, data: list[Trajectory], length: int, rng: np.random.Generator
) -> Iterator[Batch]:
    """Endless batches, every epoch in a new order. Sampled tokens of a batch weigh the same."""
    size = max(1, config.warm_start.tokens // length)
    while True:
        order = rng.permutation(len(data))
        shuffled = [data[index] for index in order]
        for start in range(0, len(shuffled), CHUNK):
            part = shuffled[start : start + CHUNK]
            for batch in pack(part, [1.0] * len(part), [1.0] * len(part), size, length):
                yield batch._replace(weights=_weights(batch, config.warm_start.context_weight))


def _weights(batch: Batch, context: float) -> np.ndarray:
    """1 for the assistant's tokens and `context` for what it reads, per assistant token.

    An observation such as "no 7" holds the rule's answer, so predicting it is practice too.
    """
    weights = np.where(batch.weights > 0, 1.0, context * (batch.segment_ids > 0))
    return (weights / max(1.0, batch.weights.sum())).astype(np.float32)
