"""Documents that the Designer is grounded on."""

from spade_jax.grounding.corpus import Corpus, CorpusError, Document, Mixture, cut_words
from spade_jax.grounding.sampler import DocumentSampler
from spade_jax.grounding.sources import open_corpus

__all__ = [
    "Corpus",
    "CorpusError",
    "Document",
    "DocumentSampler",
    "Mixture",
    "cut_words",
    "open_corpus",
]
