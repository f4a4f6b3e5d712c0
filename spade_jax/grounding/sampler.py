"""The order in which documents are drawn: shuffled, endless, sharded over hosts, resumable."""

import dataclasses
from typing import Any

import grain
import numpy as np

from spade_jax.grounding.corpus import Corpus, CorpusError, Document, Mixture, cut_words

_STATE_KEYS = ("position", "seed", "lengths", "weights", "shard_count")


class DocumentSampler:
    """Draws documents without end; each pass over a corpus is a new permutation of it.

    The draw at a position is a function of (corpus, seed, shard), so the state is that position.
    Within a pass every document goes to exactly one of the `shard_count` hosts. Parts of a
    `Mixture` are shuffled and sharded each on their own and interleaved by weight.
    """

    def __init__(self, corpus: Corpus, seed: int, max_words: int,
                 shard_index: int = 0, shard_count: int = 1):
        """`max_words` (at least 1) is where a document is cut; raises CorpusError."""
        if max_words < 1:
            raise CorpusError(f"max_words must be at least 1, got {max_words}")
        if not 0 <= shard_index < shard_count:
            raise CorpusError(f"shard_index must lie in [0, {shard_count}), got {shard_index}")
        parts, weights = [corpus], [1.0]
        if isinstance(corpus, Mixture):
            parts, weights = list(corpus.parts), list(corpus.weights)
        if not all(len(part) for part in parts):
            raise CorpusError("a corpus without documents cannot be sampled")
        self._max_words = max_words
        self._position = 0
        self._identity = {
            "seed": int(seed),
            "lengths": [len(part) for part in parts],
            "weights": weights,
        }
        self._shard_count = shard_count
        shard = slice(shard_index, None, shard_count)
        streams = [
            grain.MapDataset.source(part).shuffle(seed=_seed(seed, i)).repeat().slice(shard)
            for i, part in enumerate(parts)
        ]
        self._stream = grain.MapDataset.mix(streams, weights) if len(streams) > 1 else streams[0]

    def next(self) -> Document:
        """The next document of this shard, cut to `max_words` words."""
        document = self._stream[self._position]
        self._position += 1
        return dataclasses.replace(document, text=cut_words(document.text, self._max_words))

    def state(self) -> dict[str, Any]:
        """A JSON object that `restore` accepts."""
        return {"position": self._position, **self._identity, "shard_count": self._shard_count}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues where `state` was taken; raises CorpusError for another corpus or seed.

        With another number of shards it continues at the same fraction of the pass, so that at
        most one round of documents is drawn twice or left out.
        """
        if sorted(state) != sorted(_STATE_KEYS):
            raise CorpusError(f"sampler state needs {_STATE_KEYS}, got {tuple(state)}")
        for key, expected in self._identity.items():
            if state[key] != expected:
                raise CorpusError(f"the saved position belongs to a corpus with {key} "
                                  f"{state[key]}, this one has {expected}")
        drawn = int(state["position"]) * int(state["shard_count"])
        self._position = -(-drawn // self._shard_count)


def _seed(seed: int, part: int) -> int:
    """A seed per part; plain neighbours would make one pass of a part repeat another's order."""
    return int(np.random.SeedSequence((seed, part)).generate_state(1)[0])
