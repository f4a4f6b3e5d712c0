"""Halving a range; one of two lamp colours means lower, the other higher."""

import itertools
from collections.abc import Sequence

import numpy as np

from spade_jax.envs.library.documents import COLOURS, is_reserved
from spade_jax.envs.library.family import Family, Mechanic, Turn, numbers


class SearchFamily(Family):
    """A rule is "low/high", the two lamp colours. The reply after a guess shows both halves.

    Replies: "COLOUR, 1 5 or 7 12" after a guess inside the range that is still possible,
    else "NOUN in 1 12" with that range, which tells an agent that took the wrong half.
    """

    name = "search"
    skill = "logical deduction"
    turns = 5
    mechanics = tuple(
        Mechanic(f"{low}/{high}")
        for low, high in itertools.permutations(COLOURS, 2)
        if not is_reserved(low, high)
    )
    cues = (
        "Something is hidden and a lamp tells which way to look.",
        "The lamps say lower or higher to those who know them.",
        "Workers search for a lost place by the colour of a lamp.",
    )

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        low, high = mechanic.rule.split("/")
        return {"low": low, "high": high}

    def colours(self, mechanic: Mechanic) -> tuple[str, ...]:
        return tuple(mechanic.rule.split("/"))

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        low, high = mechanic.rule.split("/")
        return f"Halve the range. {low} means lower, {high} means higher."

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        seen = [text for text, _ in turns] + [observation]
        lamps = [_lamp(text) for text in seen]
        known: dict[str, bool] = {}
        for text, lamp, later in zip(seen, lamps, seen[1:], strict=False):
            if lamp:
                halves, whole = numbers(text), numbers(later)
                known[lamp] = (whole[0], whole[-1]) == (halves[0], halves[1])
        lamp = lamps[-1]
        means_lower = (True, False)
        if lamp in known:
            means_lower = (known[lamp],)
        elif known:
            means_lower = (not next(iter(known.values())),)
        lamp = lamp or "none"
        return [Mechanic(f"{lamp}/other" if low else f"other/{lamp}") for low in means_lower]

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        bounds = numbers(observation)
        if len(bounds) == 4:
            lower = mechanic.rule.split("/")[0] == _lamp(observation)
            bounds = bounds[:2] if lower else bounds[2:]
        return str(max(0, bounds[0] + bounds[1]) // 2)

    def careless(self, turns: Sequence[Turn], observation: str, rng: np.random.Generator) -> str:
        bounds = numbers(observation)
        return str(int(rng.integers(bounds[0], bounds[-1] + 1)))


def _lamp(observation: str) -> str:
    return observation.split(",")[0] if " or " in observation else ""
