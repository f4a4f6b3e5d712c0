"""The order in which the environments of a pool are drawn: shuffled passes, without replacement."""

from collections.abc import Collection, Sequence

import msgspec

from spade_jax import seeding


class Deck(msgspec.Struct, omit_defaults=True):
    """Where the walk over a pool stands.

    Attributes:
        passes: shuffles so far.
        left: names that the present pass still has, the next one first.
    """

    passes: int = 0
    left: list[str] = msgspec.field(default_factory=list)

    def draw(self, names: Sequence[str], count: int, seed: int) -> list[str]:
        """`count` different names, or all where there are fewer.

        A pass ends before a name returns. Where a new pass begins within a draw, what this draw has
        already is put back: it is the first of the new pass to come.
        """
        count = min(count, len(names))
        chosen: list[str] = []
        repeated: list[str] = []
        while len(chosen) < count:
            if not self.left:
                order = seeding.generator(seed, "pool", self.passes).permutation(len(names))
                self.left = [names[index] for index in order]
                self.passes += 1
            name = self.left.pop(0)
            (repeated if name in chosen else chosen).append(name)
        self.left = repeated + self.left
        return chosen

    def discard(self, names: Collection[str]) -> None:
        """They are not drawn any more."""
        self.left = [name for name in self.left if name not in names]
