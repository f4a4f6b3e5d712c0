"""When an environment of a persistent pool has nothing left to teach."""

from collections.abc import Sequence

import msgspec


class Tally(msgspec.Struct):
    """Plays of one environment since it was last judged, and the sum of their returns."""

    plays: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / max(1, self.plays)

    def add(self, returns: Sequence[float]) -> None:
        self.plays += len(returns)
        self.total += sum(returns)


def judged(
    tallies: dict[str, Tally], plays: int, band: tuple[float, float]
) -> dict[str, float]:
    """The environments whose mean return left the band, with that mean.

    Every environment with at least `plays` plays is judged, and its count begins anew, so that a
    mean is always one of recent plays.
    """
    low, high = band
    due = {name: tally.mean for name, tally in tallies.items() if tally.plays >= plays}
    for name in due:
        del tallies[name]
    return {name: mean for name, mean in due.items() if not low <= mean <= high}
