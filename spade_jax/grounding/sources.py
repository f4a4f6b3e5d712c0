"""Names of corpora: what a recipe writes, and which file opens it."""

import importlib
from collections.abc import Sequence
from pathlib import Path

from spade_jax.grounding.corpus import Corpus, CorpusError, Mixture

# A new source is one file with `open_source(argument, base_dir) -> Corpus` and one row here.
SOURCES = {
    "bundled": "spade_jax.grounding.bundled",
    "jsonl": "spade_jax.grounding.jsonl",
    "machine": "spade_jax.grounding.machine",
    "tfds": "spade_jax.grounding.tfds_source",
}


def open_corpus(
    sources: str | Sequence[str],
    weights: Sequence[float] | None = None,
    base_dir: str | Path | None = None,
) -> Corpus:
    """Opens one source, `KIND[:ARGUMENT]`, or a mixture of several by relative weight.

    Examples: `bundled`, `machine`, `jsonl:notes/*.jsonl.gz`, `tfds:wikipedia/20230601.en:train`.
    Without `weights` a mixture draws equally often from each source, whatever their sizes.
    Relative paths start at `base_dir` (default: the working directory). Modules of sources that
    are not named are not imported. Raises CorpusError.
    """
    base = Path(base_dir) if base_dir is not None else Path()
    specs = [sources] if isinstance(sources, str) else list(sources)
    parts = [_open_one(spec, base) for spec in specs]
    mixture = Mixture(parts, weights if weights is not None else [1.0] * len(parts))
    return parts[0] if len(parts) == 1 else mixture


def _open_one(spec: str, base_dir: Path) -> Corpus:
    kind, _, argument = spec.partition(":")
    if kind not in SOURCES:
        raise CorpusError(
            f"unknown corpus {spec!r}; expected KIND[:ARGUMENT], KIND one of {', '.join(SOURCES)}"
        )
    return importlib.import_module(SOURCES[kind]).open_source(argument, base_dir)
