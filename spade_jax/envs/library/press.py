"""Numbered keys that must be pressed in a hidden order."""

from collections.abc import Sequence

import numpy as np

from spade_jax.envs.library.family import Family, Mechanic, Turn, numbers

ADVICE = {
    "up": "Press from small to large.",
    "down": "Press from large to small.",
    "even up": "Press even numbers first, from small to large.",
    "odd down": "Press odd numbers first, from large to small.",
}


class PressFamily(Family):
    """3 + N // 20 keys and one turn more than keys. "no 4" names the key that was right."""

    name = "press"
    skill = "pattern recognition"
    turns = 8
    mechanics = tuple(Mechanic(rule) for rule in ADVICE)
    cues = (
        "The keys must be pressed in the right order.",
        "An order rules which one comes first and which one last.",
        "Only those who know the order may open it.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule]

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        replies = [later for later, _ in turns[1:]] + [observation]
        known = []
        for (asked, action), reply in zip(turns, replies, strict=False):
            right = action if reply.startswith("yes") else str(numbers(reply)[0])
            known.append((_keys(asked), right))
        return [
            mechanic
            for mechanic in self.mechanics
            if all(str(_next(keys, mechanic)) == right for keys, right in known)
        ]

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        return str(_next(_keys(observation), mechanic))

    def careless(self, turns: Sequence[Turn], observation: str, rng: np.random.Generator) -> str:
        keys = _keys(observation)
        return str(keys[int(rng.integers(len(keys)))])


def _keys(observation: str) -> list[int]:
    return numbers(observation.rsplit(",", 1)[-1])


def _next(keys: list[int], mechanic: Mechanic) -> int:
    first, _, order = mechanic.rule.rpartition(" ")
    wanted = {"even": 0, "odd": 1}.get(first)
    favoured = [key for key in keys if wanted is None or key % 2 == wanted] or keys
    return min(favoured) if order == "up" else max(favoured)
