"""`bundled`: the small topical corpora that ship inside the package, one for each domain of the
seed library: `bundled` calls for games, `bundled:tool_use` for tasks with tools."""

from pathlib import Path

from spade_jax.grounding.corpus import CorpusError
from spade_jax.grounding.jsonl import JsonlCorpus

PATH = Path(__file__).with_name("data") / "bundled.jsonl"
TOOL_USE_PATH = PATH.with_name("bundled_tool_use.jsonl")


def open_source(argument: str, base_dir: Path) -> JsonlCorpus:
    """Documents carry their `topic` as metadata."""
    del base_dir
    paths = {"": PATH, "tool_use": TOOL_USE_PATH}
    if argument not in paths:
        raise CorpusError(f"bundled:{argument}: expected bundled or bundled:tool_use")
    return JsonlCorpus([paths[argument]])
