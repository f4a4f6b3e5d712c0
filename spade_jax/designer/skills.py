"""Which skill a design exercises, judged by the structure of its source.

A design is asked for by skill, but nothing in the regret reward makes it keep to that skill: a
Designer may turn every request into the one kind of environment that pays best. The matcher
compares a source with references of known skill; memory uses the same similarity to keep one
program from filling it.

The lexer here is a regular expression rather than `tokenize`: it reads sources that were cut
short, and it splits f-strings alike on every Python version.
"""

import dataclasses
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import numpy as np

SHINGLE = 4  # tokens
NUMBER, STRING = "0", '""'

_TOKEN = re.compile(
    r"""
    (?P<comment>\#[^\n]*)
  | (?P<string>(?i:[rbfu]{0,2})(?:
        '''(?:[^\\]|\\.)*?(?:'''|\Z) | \"""(?:[^\\]|\\.)*?(?:\"""|\Z)
      | '(?:[^'\\\n]|\\.)*'? | "(?:[^"\\\n]|\\.)*"? ))
  | (?P<number>0[xXbBoO][0-9a-fA-F_]+ | (?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?[jJ]?)
  | (?P<name>[^\W\d]\w*)
  | (?P<operator>\*\*=|//=|>>=|<<=|\.\.\.|->|:=|[=!<>]=|\*\*|//|<<|>>|[-+*/%&|^@]=|\S)
    """,
    re.VERBOSE | re.DOTALL,
)

_TOOL = re.compile(r"^[ \t]+def tool_(\w+)", re.MULTILINE)

Shingles = Counter[tuple[str, ...]]


def tokens(source: str, normalise: bool = True) -> list[str]:
    """The Python tokens of `source` without comments, line breaks and indentation.

    With `normalise` every number is the same token and so is every string. Never raises: text
    that is not Python still yields tokens.
    """
    result = []
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if kind == "comment":
            continue
        if normalise and kind == "number":
            result.append(NUMBER)
        elif normalise and kind == "string":
            result.append(STRING)
        else:
            result.append(match.group())
    return result


def shingles(source: str) -> Shingles:
    """How often each run of `SHINGLE` normalised tokens occurs; a shorter source is one run."""
    found = tokens(source)
    if not found:
        return Counter()
    starts = range(max(1, len(found) - SHINGLE + 1))
    return Counter(tuple(found[start:start + SHINGLE]) for start in starts)


def similarity(a: Shingles, b: Shingles) -> float:
    """Weighted Jaccard index: sum of minima over sum of maxima, in [0, 1]; two empties are 1."""
    smaller, larger = (a, b) if len(a) <= len(b) else (b, a)
    shared = sum(min(count, larger[run]) for run, count in smaller.items() if run in larger)
    total = a.total() + b.total() - shared
    return shared / total if total else 1.0


def tool_count(source: str) -> int:
    """Tools that a source defines, each a method `tool_NAME`; 0 for a game."""
    return len(set(_TOOL.findall(source)))


def verbatim_key(source: str) -> str:
    """Equal for two sources exactly when only comments and spacing tell them apart."""
    return "\n".join(tokens(source, normalise=False))


def verbatim_keys(sources: Iterable[str]) -> frozenset[str]:
    """What `is_verbatim` looks a source up in."""
    return frozenset(verbatim_key(source) for source in sources)


def is_verbatim(source: str, references: Collection[str]) -> bool:
    """Whether `source` is a copy of a reference, given `references` as `verbatim_keys`."""
    return verbatim_key(source) in references


@dataclasses.dataclass(frozen=True)
class Match:
    """The closest reference. `skill` and `family` are None when nothing is close enough."""

    skill: str | None
    family: str | None
    similarity: float  # weighted Jaccard index in [0, 1], of the closest reference in any case


class SkillMatcher:
    """Compares sources with references of known skill and family.

    A run of tokens counts by how rare it is among families (inverse document frequency), so that
    what every environment shares (the signatures of reset and step) says little.
    """

    def __init__(self, references: Sequence[tuple[str, str, str]], threshold: float = 0.25):
        """`references` are (skill, family, source); several per family widen what is recognised.

        A source whose best similarity is below `threshold` has an unknown structure. Measured on
        the seed library: unrelated programs stay below 0.1, a member of a family with a tenth of
        its tokens replaced scores about 0.25. Raises ValueError without references or with a
        family under two skills.
        """
        if not references:
            raise ValueError("a skill matcher needs at least one reference")
        skill_of: dict[str, str] = {}
        for skill, family, _ in references:
            if skill_of.setdefault(family, skill) != skill:
                raise ValueError(f"family {family!r} is under {skill_of[family]!r} and {skill!r}")
        self.threshold = threshold
        self._labels = [(skill, family) for skill, family, _ in references]
        runs = [shingles(source) for _, _, source in references]
        families = defaultdict(set)
        for (_, family), counter in zip(self._labels, runs, strict=True):
            for run in counter:
                families[run].add(family)
        self._column = {run: column for column, run in enumerate(families)}
        rarest = len(skill_of) + 1
        self._weights = np.array([math.log(rarest / len(seen)) for seen in families.values()])
        self._unknown_weight = math.log(rarest)
        self._counts = np.zeros((len(self._column), len(runs)))  # [runs, references]
        for row, counter in enumerate(runs):
            for run, count in counter.items():
                self._counts[self._column[run], row] = count
        self._totals = self._weights @ self._counts  # [references]

    def match(self, source: str) -> Match:
        """The skill and family that the structure of `source` belongs to."""
        known, counts, total = [], [], 0.0
        for run, count in shingles(source).items():
            column = self._column.get(run)
            if column is None:
                total += count * self._unknown_weight
            else:
                known.append(column)
                counts.append(count)
        if not known:
            return Match(None, None, 0.0)
        weights, counts = self._weights[known], np.array(counts)
        total += float(weights @ counts)
        shared = weights @ np.minimum(self._counts[known], counts[:, None])  # [references]
        scores = shared / (total + self._totals - shared)
        best = int(np.argmax(scores))
        score = float(scores[best])
        skill, family = self._labels[best] if score >= self.threshold else (None, None)
        return Match(skill, family, score)
