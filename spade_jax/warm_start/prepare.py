"""The warm start's examples, made once and kept in WORKDIR/warm_start, or borrowed."""

import dataclasses
import itertools
import pathlib
import shutil
from collections.abc import Callable

from ml_collections import ConfigDict

from spade_jax import seeding, settings
from spade_jax.designer import verbatim_keys
from spade_jax.prompts import Prompts
from spade_jax.warm_start import jsonl_rows, library_rows
from spade_jax.warm_start.example import Example, WarmStartError

LIBRARY = "library"  # the source's name and its folder's
OWN = "jsonl"  # the folder of all other sources
# Settings that a warm start depends on, besides the seed.
SHAPES_IT = (
    "prompts", "model.", "text.", "warm_start.", "grounding.max_words", "memory.snippet",
    "learner.designer.length", "learner.agent.length",
    "designer.thinking", "agent.thinking", "agent.hint_style", "agent.max_turns",
    "curriculum.domain", "hints.source",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """Attributes:
    folder: holds the rows, a new model's tokenizer and the stage's checkpoints, so that an
        interrupted stage goes on where it was and several runs can share one.
    sources: `verbatim_keys` of every environment that the rows show the designer.
    examples: renders the rows, the same in every call.
    """

    folder: pathlib.Path
    sources: frozenset[str]
    examples: Callable[[], list[Example]]


def prepare(config: ConfigDict, workdir: pathlib.Path, prompts: Prompts) -> WarmStart:
    """The rows of `config.warm_start.sources`.

    Raises:
        WarmStartError: a source cannot be read or made, or what is borrowed does not fit.
    """
    folder = workdir / "warm_start"
    if config.warm_start.path and not folder.exists():
        _borrow(config, pathlib.Path(config.warm_start.path), folder)
    rows = folder / "rows"
    if not rows.exists():
        _make_rows(config, rows)
    shown = itertools.chain(library_rows.sources(rows / LIBRARY), jsonl_rows.sources(rows / OWN))
    return WarmStart(folder, verbatim_keys(shown), lambda: _examples(config, rows, prompts))


def _make_rows(config: ConfigDict, rows: pathlib.Path) -> None:
    """Makes `rows`, whole or not at all."""
    section = config.warm_start
    partial = rows.with_name("rows.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for source in section.sources:
        if source == LIBRARY:
            library_rows.generate(
                partial / LIBRARY, seeding.derive(config.seed, "rows"), section.designs,
                section.episodes, section.mixture, config.curriculum.domain,
            )  # fmt: skip
        else:
            jsonl_rows.copy(source, partial / OWN)
    partial.rename(rows)


def _examples(config: ConfigDict, rows: pathlib.Path, prompts: Prompts) -> list[Example]:
    seed = seeding.derive(config.seed, "memory examples")
    library = library_rows.examples(
        rows / LIBRARY, prompts, config.grounding.max_words, config.memory.snippet, seed,
        config.agent.hint_style, config.curriculum.domain, config.agent.max_turns,
        config.hints.source == "inline",
    )  # fmt: skip
    return library + jsonl_rows.examples(rows / OWN)


def _borrow(config: ConfigDict, lender: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies another workdir's warm start, whole or not at all; it may have another seed.

    Raises:
        WarmStartError: it is no warm start of these settings.
    """
    if not (lender / "warm_start" / "rows").is_dir() or not (lender / settings.FILE).is_file():
        raise WarmStartError(f"warm_start.path={lender}: expected a workdir of this version")
    changed = [key for key in settings.differences(config, lender) if key.startswith(SHAPES_IT)]
    if changed:
        raise WarmStartError(f"warm_start.path: {settings.describe(config, lender, changed)}")
    partial = folder.with_name("warm_start.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(lender / "warm_start", partial)
    partial.rename(folder)
