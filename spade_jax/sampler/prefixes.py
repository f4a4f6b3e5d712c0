"""Prompts that begin alike share pages: plays of one environment, attempts of one designer."""

import dataclasses
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from spade_jax.sampler.pages import Pages


@dataclasses.dataclass(eq=False)
class Prefix:
    """The beginning of a prompt. `pages` is None while `reader` still reads it; without a reader
    and without pages it was given up."""

    length: int
    reader: Hashable | None
    pages: tuple[int, ...] | None = None

    @property
    def given_up(self) -> bool:
        return self.reader is None and self.pages is None


class Prefixes:
    """The prefixes of one shard. They outlive the rows that read them, until `evict`.

    A prefix is shared where both prompts are cut alike for prefill, so that its pages hold the very
    numbers that reading it anew would give: at whole chunks, and at the end of equal prompts.
    """

    def __init__(self, pages: Pages, page: int, chunk: int):
        """`page`, `chunk`: positions of a page and of the longest prefill row."""
        self._pages, self._page, self._chunk = pages, page, chunk
        self._known: OrderedDict[bytes, Prefix] = OrderedDict()  # the longest unused first
        self._reading: dict[Hashable, list[tuple[bytes, Prefix]]] = {}
        self._held: Counter[int] = Counter()  # how many prefixes hold each page

    def longest(self, tokens: Sequence[int], asking: Hashable) -> Prefix | None:
        """The longest known prefix of `tokens`, perhaps still being read, but not by who asks."""
        keys = []
        for _, key in self._prefixes(tokens):
            if key not in self._known or self._known[key].reader is asking:
                break
            keys.append(key)
        for key in reversed(keys):  # the shortest is of the widest use, so it goes last
            self._known.move_to_end(key)
        return self._known[keys[-1]] if keys else None

    def announce(self, reader: Hashable, tokens: Sequence[int]) -> None:
        """`reader` will read `tokens`: others with that beginning may wait for it. It may have
        announced some of it before."""
        new = [
            (key, Prefix(length, reader))
            for length, key in self._prefixes(tokens)
            if key not in self._known
        ]
        self._known.update(reversed(new))
        if new:
            mine = self._reading.get(reader, []) + new
            self._reading[reader] = sorted(mine, key=lambda known: known[1].length)

    def progress(self, reader: Hashable, length: int, pages: Sequence[int]) -> None:
        """`reader` has read so many positions, which lie in `pages`."""
        mine = self._reading.get(reader, [])
        while mine and mine[0][1].length <= length:
            _, prefix = mine.pop(0)
            prefix.pages, prefix.reader = tuple(pages[: -(-prefix.length // self._page)]), None
            self._pages.hold(prefix.pages)
            self._held.update(prefix.pages)
        if not mine:
            self._reading.pop(reader, None)

    def give_up(self, reader: Hashable) -> None:
        """`reader` reads no further."""
        for key, prefix in self._reading.pop(reader, []):
            prefix.reader = None
            del self._known[key]

    def reclaimable(self) -> int:
        """Pages that only prefixes hold."""
        return sum(map(self._is_reclaimable, self._held))

    def evict(self) -> bool:
        """Drops what has been of no use for longest, if only prefixes hold a page of it; False when
        there is nothing to drop."""
        for key, prefix in self._known.items():
            if prefix.pages and any(map(self._is_reclaimable, prefix.pages)):
                self._drop(key)
                return True
        return False

    def let_go(self, page: int) -> None:
        """Drops all prefixes that hold the page."""
        for key in [key for key, prefix in self._known.items() if page in (prefix.pages or ())]:
            self._drop(key)

    def _drop(self, key: bytes) -> None:
        prefix = self._known.pop(key)
        self._pages.release(prefix.pages)
        self._held -= Counter(prefix.pages)
        prefix.pages = None

    def _is_reclaimable(self, page: int) -> bool:
        return self._pages.holders(page) == self._held[page]

    def _prefixes(self, tokens: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Length and key of every prefix that can be shared, each key hashed on from the last."""
        ids, key = np.asarray(tokens, np.int32), b""
        for start in range(0, len(ids), self._chunk):
            part = ids[start : start + self._chunk]
            key = hashlib.blake2b(key + part.tobytes(), digest_size=16).digest()
            yield start + len(part), key
