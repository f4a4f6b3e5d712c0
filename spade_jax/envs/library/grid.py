"""A walk on a grid with four words; axes may be swapped and either axis mirrored."""

from collections.abc import Sequence

import numpy as np

from spade_jax.envs.library.family import MOVE_FORMAT, Family, Mechanic, Turn, numbers

WORDS = ("east", "west", "north", "south")


class GridFamily(Family):
    """A rule names four words: raise and lower the first number, raise and lower the second."""

    name = "grid"
    skill = "spatial reasoning"
    turns = 4
    reply = MOVE_FORMAT
    mechanics = tuple(
        Mechanic(rule)
        for rule in (
            "east west north south",
            "north south east west",
            "west east north south",
            "east west south north",
            "west east south north",
            "south north west east",
        )
    )
    cues = (
        "It rolls over the floor in four directions.",
        "The old map shows the wrong directions.",
        "From the field one walks north and east.",
    )

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        steps = ("(1, 0)", "(-1, 0)", "(0, 1)", "(0, -1)")
        return dict(zip(mechanic.rule.split(), steps, strict=True))

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        right, left, up, down = mechanic.rule.split()
        return f"{right} raises the first, {left} lowers it, {up} raises the second, {down} lowers."

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        places = [numbers(text)[:2] for text, _ in turns] + [numbers(observation)[:2]]
        steps = list(zip(places, (action for _, action in turns), places[1:], strict=False))
        return [
            mechanic
            for mechanic in self.mechanics
            if all(_agrees(before, action, after, mechanic) for before, action, after in steps)
        ]

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        place, goal = numbers(observation)[:2], numbers(observation)[2:]
        axis = 0 if place[0] != goal[0] else 1
        gap = goal[axis] - place[axis]
        return f"{mechanic.rule.split()[2 * axis + (gap < 0)]} {abs(gap)}"

    def careless(self, turns: Sequence[Turn], observation: str, rng: np.random.Generator) -> str:
        place_and_goal = numbers(observation)
        word = WORDS[int(rng.integers(4))]
        return f"{word} {int(rng.integers(1, max(place_and_goal) + 2))}"


def _agrees(before: list[int], action: str, after: list[int], mechanic: Mechanic) -> bool:
    """Whether a move went the mechanic's way; how far is left out, since walls stop a move."""
    axis, lowers = divmod(mechanic.rule.split().index(action.split()[0]), 2)
    if before[1 - axis] != after[1 - axis]:
        return False
    return after[axis] <= before[axis] if lowers else after[axis] >= before[axis]
