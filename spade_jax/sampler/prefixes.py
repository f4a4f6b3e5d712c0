"""Which cache rows hold the beginning of a prompt: plays of one environment share theirs."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np


class Prefixes:
    """Owners of cache rows by what the rows begin with.

    A prefix is shared where both prompts are cut alike for prefill, so that a copy holds the very
    numbers that reading it anew would give: at whole chunks, and at the end of equal prompts.
    """

    def __init__(self, chunk: int):
        self._chunk = chunk
        self._owners: dict[bytes, list[Hashable]] = defaultdict(list)
        self._keys: dict[Hashable, list[bytes]] = {}

    def add(self, owner: Hashable, tokens: Sequence[int]) -> None:
        self._keys[owner] = [key for _, key in self._prefixes(tokens)]
        for key in self._keys[owner]:
            self._owners[key].append(owner)

    def remove(self, owner: Hashable) -> None:
        for key in self._keys.pop(owner):
            self._owners[key].remove(owner)
            if not self._owners[key]:
                del self._owners[key]

    def longest(
        self, tokens: Sequence[int], may_lend: Callable[[Hashable], bool]
    ) -> tuple[int, Hashable] | None:
        """`(length, owner)` of the longest prefix that somebody who may lend has, or None."""
        found = None
        for length, key in self._prefixes(tokens):
            owner = next(filter(may_lend, self._owners.get(key, ())), None)
            if owner is None:
                break
            found = length, owner
        return found

    def _prefixes(self, tokens: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Length and key of every prefix that can be shared, each key hashed on from the last."""
        ids, key = np.asarray(tokens, np.int32), b""
        for start in range(0, len(ids), self._chunk):
            part = ids[start : start + self._chunk]
            key = hashlib.blake2b(key + part.tobytes(), digest_size=16).digest()
            yield start + len(part), key
