"""`bundled`: the small topical corpus that ships inside the package."""

from pathlib import Path

from spade_jax.grounding.corpus import CorpusError
from spade_jax.grounding.jsonl import JsonlCorpus

PATH = Path(__file__).with_name("data") / "bundled.jsonl"


def open_source(argument: str, base_dir: Path) -> JsonlCorpus:
    """Takes no argument; documents carry their `topic` as metadata."""
    del base_dir
    if argument:
        raise CorpusError(f"bundled takes no argument, got {argument!r}")
    return JsonlCorpus([PATH])
