"""How far the designs spread, and what a design in a place where few are is worth."""

from collections.abc import Sequence
from typing import NamedTuple

from spade_jax.designer.environment import Environment
from spade_jax.designer.memory import Record, entropy

RECENT = 100  # newest records, of all skills, that the entropies speak of


class Cell(NamedTuple):
    """A kind of design. Knobs and lengths are in one bin up to the next power of two."""

    family: str | None
    knob: int | None
    length: int


def cell(family: str | None, knob: int | None, length: int) -> Cell:
    """Args:
    knob: the difficulty constant, or None.
    length: characters of the source.
    """
    return Cell(family, None if knob is None else knob.bit_length(), length.bit_length())


def novelty(environment: Environment, records: Sequence[Record], recent: int) -> float:
    """1 minus the share of the skill's newest `recent` records that lie in the design's cell, in
    [0, 1]; 1 without records."""
    newest = _newest(environment.skill, records, recent)
    if not newest:
        return 1.0
    own = cell(environment.family, environment.knob, len(environment.source))
    return 1.0 - sum(_cell_of(record) == own for record in newest) / len(newest)


def repeat_share(environment: Environment, records: Sequence[Record], recent: int) -> float:
    """Share of the skill's newest `recent` records with this family and about this knob, in [0, 1].

    A designer that has found one environment that pays would write it for ever; a reward that
    falls with this share keeps families and difficulties spread.
    """
    newest = _newest(environment.skill, records, recent)
    if not newest or environment.knob is None:
        return 0.0
    same = [
        record.family == environment.family
        and record.knob is not None
        and abs(record.knob - environment.knob) <= 0.1 * environment.knob
        for record in newest
    ]
    return sum(same) / len(newest)


def coverage(records: Sequence[Record]) -> dict[str, float]:
    """Entropies, in nats, of the newest records over families, knob bins, length bins and cells;
    empty without records."""
    cells = [_cell_of(record) for record in records[-RECENT:]]
    if not cells:
        return {}
    axes = zip(Cell._fields, zip(*cells, strict=True), strict=True)
    found = {f"{axis}_entropy": entropy(values) for axis, values in axes}
    return {**found, "cell_entropy": entropy(cells)}


def _newest(skill: str, records: Sequence[Record], recent: int) -> list[Record]:
    return [record for record in records if record.skill == skill][-recent:]


def _cell_of(record: Record) -> Cell:
    return cell(record.family, record.knob, record.characters)
