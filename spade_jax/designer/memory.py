"""Memory of environments: what was tried and how it went, as examples for the Designer.

Selection follows the SPADE paper: positives are drawn among the environments with the highest
regret that the agent neither always wins nor always loses, negatives among those it does.
"""

import dataclasses
import functools
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from spade_jax.designer.skills import Shingles, shingles, similarity

LATELY = 20  # newest records of a skill that say how the agent does at it


class Record(msgspec.Struct, frozen=True):
    """One environment with its measured difficulty.

    Attributes:
        source: cut to the snippet length when it is added.
        skill: that the design was asked for; examples are looked up by it.
        win_rate: of the plays without the hint, in [0, 1].
        regret: return with the hint minus return without it.
        step: of the measurement.
        document_id: of the grounding document, or None.
        knob: the difficulty constant, or None.
        family: the seed family it resembles, or None.
        length: characters of the whole source; 0: unknown.
        tools: tools that it offers to the agent.
        behaviour: digest of what it answers to the sandbox's probes, or empty.
    """

    source: str
    skill: str
    win_rate: float
    regret: float
    step: int
    document_id: str | None = None
    knob: int | None = None
    family: str | None = None
    length: int = 0
    tools: int = 0
    behaviour: str = ""

    @property
    def characters(self) -> int:
        """Of the whole source, as far as it is known."""
        return self.length or len(self.source)


class Negative(NamedTuple):
    """An example of what to avoid: the agent nearly always wins it, or else nearly never."""

    record: Record
    too_easy: bool


class Difficulty(NamedTuple):
    """How often the agent wins lately, in [0, 1], and what to make: "harder", "easier", "same"."""

    win_rate: float
    aim: str


@dataclasses.dataclass(frozen=True)
class Selection:
    """Examples for one design, in the order drawn; either may be shorter than asked for."""

    positives: tuple[Record, ...]
    negatives: tuple[Negative, ...]


@dataclasses.dataclass(frozen=True)
class MemorySettings:
    """Defaults are the paper's.

    Attributes:
        size: most records kept; the oldest goes first.
        snippet: characters of source kept.
        positives, negatives: examples per selection.
        recent: positives come from the newest `recent` records of the skill; 0: from all.
        top: positives are drawn among the `top` highest by regret; 0: max(3 * positives, 10).
        band: win rates [low, high] of a positive, both included.
        too_easy, too_hard: a negative wins more than the first or less than the second.
        duplicate: similarity in [0, 1] from which a record of the same skill and knob replaces the
            older one instead of taking another place (ours); above 1 nothing is a duplicate.
    """

    size: int = 200
    snippet: int = 2000
    positives: int = 2
    negatives: int = 1
    recent: int = 0
    top: int = 0
    band: tuple[float, float] = (0.15, 0.85)
    too_easy: float = 0.9
    too_hard: float = 0.1
    duplicate: float = 0.9


@dataclasses.dataclass(frozen=True)
class _Entry:
    record: Record

    @functools.cached_property
    def shingles(self) -> Shingles:
        return shingles(self.record.source)


class Memory:
    """Records from oldest to newest; all randomness is the caller's generator."""

    def __init__(self, settings: MemorySettings, records: Sequence[Record] = ()):
        self._settings = settings
        self._entries = [_Entry(record) for record in records[-settings.size:]]

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def records(self) -> tuple[Record, ...]:
        """Oldest first."""
        return tuple(entry.record for entry in self._entries)

    def add(self, record: Record) -> bool:
        """Stores a record as the newest; False when it replaced a near-duplicate.

        Raises ValueError for a win rate outside [0, 1] or a regret that is not finite.
        """
        if not 0 <= record.win_rate <= 1 or not np.isfinite(record.regret):
            raise ValueError(f"win rate {record.win_rate} and regret {record.regret} of a record "
                             "must be in [0, 1] and finite")
        record = msgspec.structs.replace(record, source=record.source[: self._settings.snippet])
        new = _Entry(record)
        kept = [
            entry
            for entry in self._entries
            if (entry.record.skill, entry.record.knob) != (record.skill, record.knob)
            or similarity(new.shingles, entry.shingles) < self._settings.duplicate
        ]
        replaced = len(kept) < len(self._entries)
        self._entries = [*kept, new][-self._settings.size:]
        return not replaced

    def select(self, skill: str, rng: np.random.Generator) -> Selection:
        """Examples of one skill, drawn without replacement and uniformly among the candidates."""
        settings = self._settings
        same = [record for record in self.records if record.skill == skill]
        low, high = settings.band
        recent = same[-settings.recent:] if settings.recent else same
        good = [record for record in reversed(recent) if low <= record.win_rate <= high]
        good.sort(key=lambda record: -record.regret)  # stable: the newest of equals first
        good = good[: settings.top or max(3 * settings.positives, 10)]
        bad = self._negatives(same)
        return Selection(
            positives=tuple(_draw(good, settings.positives, rng)),
            negatives=tuple(_draw(bad, settings.negatives, rng)),
        )

    def coverage(self) -> dict[str, float]:
        """What the records span, for the metrics; values that do not exist are left out.

        `effective_families` is the exponential of the entropy of the families' shares: 1 when one
        family fills the memory.
        """
        records = self.records
        stats: dict[str, float] = {
            "records": len(records),
            "skills": len({record.skill for record in records}),
        }
        if not records:
            return stats
        low, high = self._settings.band
        stats["positive"] = sum(low <= record.win_rate <= high for record in records)
        stats["negative"] = len(self._negatives(records))
        stats["length_median"] = statistics.median(record.characters for record in records)
        families = [record.family for record in records if record.family is not None]
        if families:
            stats["families"] = len(set(families))
            stats["effective_families"] = float(np.exp(entropy(families)))
        knobs = [record.knob for record in records if record.knob is not None]
        if knobs:
            stats["knobs"] = len(set(knobs))
            stats["knob_median"] = statistics.median(knobs)
            stats["knob_max"] = max(knobs)
        if any(record.tools for record in records):
            stats["tools_median"] = statistics.median(record.tools for record in records)
            stats["tool_counts"] = len({record.tools for record in records})
        if behaviours := {record.behaviour for record in records if record.behaviour}:
            stats["behaviours"] = len(behaviours)
        return stats

    def difficulty(self, skill: str, target: tuple[float, float]) -> Difficulty | None:
        """How the agent does at the skill, by its newest `LATELY` records; None without any.

        Args:
            target: win rates [low, high] that are to be reached, both included.
        """
        rates = [record.win_rate for record in self.records if record.skill == skill][-LATELY:]
        if not rates:
            return None
        win_rate, (low, high) = statistics.fmean(rates), target
        aim = "harder" if win_rate > high else "easier" if win_rate < low else "same"
        return Difficulty(win_rate, aim)

    def to_json(self) -> str:
        """The records; the settings belong to the config."""
        return msgspec.json.encode(self.records).decode()

    @classmethod
    def from_json(cls, text: str, settings: MemorySettings) -> "Memory":
        """Restores `to_json`; "" is a memory not yet begun.

        A smaller `size` keeps the newest. Raises msgspec.DecodeError.
        """
        return cls(settings, msgspec.json.decode(text, type=list[Record]) if text else ())

    def _negatives(self, records: Sequence[Record]) -> list[Negative]:
        low, high = self._settings.too_hard, self._settings.too_easy
        return [
            Negative(record, record.win_rate > high)
            for record in records
            if not low <= record.win_rate <= high
        ]


def entropy(labels: Sequence[object]) -> float:
    """Entropy of the labels' shares, nats."""
    shares = np.array(list(Counter(labels).values()), np.float64) / max(1, len(labels))
    return float(np.sum(shares * -np.log(shares)))


def _draw(candidates: list, count: int, rng: np.random.Generator) -> list:
    chosen = rng.choice(len(candidates), size=min(count, len(candidates)), replace=False)
    return [candidates[index] for index in chosen]
