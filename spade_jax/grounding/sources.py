"""Names of corpora: what a recipe writes, and which file opens it."""

import importlib
import re
from pathlib import Path

from spade_jax.grounding.corpus import Corpus, CorpusError, Mixture

# A new source is one file with `open_source(argument, base_dir) -> Corpus` and one row here.
SOURCES = {
    "bundled": "spade_jax.grounding.bundled",
    "jsonl": "spade_jax.grounding.jsonl",
    "machine": "spade_jax.grounding.machine",
    "tfds": "spade_jax.grounding.tfds_source",
}

_PART = re.compile(r"(?:(?P<weight>[0-9.eE+-]+)\s*\*\s*)?(?P<spec>\S.*)", re.DOTALL)


def open_corpus(spec: str, base_dir: str | Path | None = None) -> Corpus:
    """Opens one source, `KIND[:ARGUMENT]`, or a weighted sum of them.

    Examples: `bundled`, `jsonl:notes/*.jsonl.gz`, `tfds:wikipedia/20230601.en:train:text`,
    `0.7 * bundled + 0.3 * machine`. The ` + ` between parts needs its spaces; a part without a
    weight has weight 1. Relative paths start at `base_dir` (default: the working directory).
    Modules of sources that are not named are not imported. Raises CorpusError.
    """
    base = Path(base_dir) if base_dir is not None else Path()
    parts, weights = [], []
    for piece in re.split(r"\s\+\s", spec):
        match = _PART.fullmatch(piece.strip())
        if match is None:
            raise CorpusError(f"corpus {spec!r}: expected KIND[:ARGUMENT] or WEIGHT * KIND "
                              f"joined by ' + ', with KIND one of {', '.join(SOURCES)}")
        weights.append(_weight(match["weight"], spec))
        parts.append(_open_one(match["spec"], base))
    if len(parts) == 1:
        return parts[0]
    return Mixture(parts, weights)


def _weight(text: str | None, spec: str) -> float:
    try:
        return 1.0 if text is None else float(text)
    except ValueError:
        raise CorpusError(f"corpus {spec!r}: {text!r} is not a weight") from None


def _open_one(spec: str, base_dir: Path) -> Corpus:
    kind, _, argument = spec.partition(":")
    if kind not in SOURCES:
        raise CorpusError(f"unknown corpus {kind!r}; expected one of {', '.join(SOURCES)}")
    return importlib.import_module(SOURCES[kind]).open_source(argument, base_dir)
