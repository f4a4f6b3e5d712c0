"""A new language for new text: a tokenizer trained on the examples and a model that fits it."""

import itertools
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from ml_collections import ConfigDict

from spade_jax import models, parallel, seeding
from spade_jax.envs import library
from spade_jax.language import Language
from spade_jax.text import (
    NUMBERS,
    SentencePieceTokenizer,
    TinyChat,
    Tokenizer,
    train_sentencepiece,
)
from spade_jax.warm_start.example import Example, lines
from spade_jax.warm_start.prepare import WarmStart

AGENT_LINES = 2  # agent examples per designer example that the tokenizer is trained on


def fresh_language(config: ConfigDict, mesh, warm: WarmStart) -> Language:
    """The model of `config.model`, for a tokenizer that is trained once and kept in the folder."""
    path = warm.folder / "tokenizer.model"
    if not path.exists():
        partial = path.with_suffix(".partial")
        atomic = [*NUMBERS, *library.idioms(library.DOMAINS[config.curriculum.domain])]
        train_sentencepiece(_text(warm.examples()), partial, config.text.vocab_size, atomic)
        partial.rename(path)
    tokenizer = SentencePieceTokenizer(path)
    model = models.from_config(config.model, vocab_size=tokenizer.vocab_size)

    def params() -> models.Params:
        key = jax.random.key(seeding.derive(config.seed, "init"))
        boxed = jax.eval_shape(lambda: models.init(model, key))
        make = jax.jit(
            lambda: parallel.unbox(models.init(model, key)),
            out_shardings=parallel.tree_shardings(mesh, boxed),
        )
        return number_embeddings(make(), tokenizer)

    chat = TinyChat(tokenizer)
    return Language(model, tokenizer, {"designer": chat, "agent": chat}, params)


def _text(examples: Sequence[Example]) -> Iterator[str]:
    """The lines of every example but the agent's, of which there are many and much alike."""
    agent = [example for example in examples if example.role == "agent"]
    others = [example for example in examples if example.role != "agent"]
    return itertools.chain(
        lines(others), lines(agent[: AGENT_LINES * len(others)] if others else agent)
    )


def number_embeddings(params: models.Params, tokenizer: Tokenizer) -> models.Params:
    """Starts the numbers' embeddings as waves of their value instead of noise.

    The idea is to spare a small model the discovery of the number line; single short runs with and
    without it did not settle how much it gives. The first dimensions hold cosines, then sines of
    2 pi n / period, periods 2.5 to 200; the scale stays that of the other embeddings, and training
    may change all of it.
    """
    embedding = parallel.to_host(params["embedding"])
    waves = embedding.shape[1] * 3 // 16
    values = np.arange(len(NUMBERS))[:, None]
    angles = 2 * np.pi * values / np.geomspace(2.5, 200.0, waves)
    features = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    ids = [tokenizer.encode(number)[0] for number in NUMBERS]
    embedding[ids, : 2 * waves] = features * embedding.std() * np.sqrt(2.0)
    return {**params, "embedding": parallel.place(embedding, params["embedding"].sharding)}
