"""What a corpus is: documents by position, in an order that never changes."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Protocol

_WORD = re.compile(r"\S+")


class CorpusError(Exception):
    """A corpus cannot be opened, read or resumed; the text says what was expected."""


@dataclasses.dataclass(frozen=True)
class Document:
    """One text for the Designer to draw on.

    `id` is unique within its source; `metadata` holds JSON values and never the text itself.
    """

    id: str
    text: str
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)


class Corpus(Protocol):
    """Random access to at least one document; position i is the same document in every process."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Document: ...


class Mixture:
    """Several corpora drawn from in fixed proportions.

    As a `Corpus` it is the parts laid end to end; the proportions act in `DocumentSampler`.
    """

    def __init__(self, parts: Sequence[Corpus], weights: Sequence[float]):
        """`weights` are positive and relative; raises CorpusError otherwise."""
        if not parts or len(parts) != len(weights):
            raise CorpusError(f"a mixture needs one weight per part, got {len(parts)} parts "
                              f"and {len(weights)} weights")
        if not all(0 < weight < float("inf") for weight in weights):
            raise CorpusError(f"mixture weights must be positive numbers, got {list(weights)}")
        self.parts = tuple(parts)
        self.weights = tuple(float(weight) for weight in weights)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __getitem__(self, index: int) -> Document:
        index = checked_index(index, len(self))
        for part in self.parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)


def checked_index(index: int, length: int) -> int:
    """`index` as a position in [0, length); raises IndexError outside it, negatives included."""
    if not 0 <= index < length:
        raise IndexError(f"document {index} of a corpus of {length}")
    return int(index)


def cut_words(text: str, max_words: int) -> str:
    """The first `max_words` whitespace-separated words, the spacing between them kept."""
    for count, word in enumerate(_WORD.finditer(text), start=1):
        if count == max_words:
            return text[: word.end()]
    return text
