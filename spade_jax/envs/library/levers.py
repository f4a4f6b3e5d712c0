"""Two coloured levers, one raises and one lowers, each pull by a hidden step."""

import itertools

from spade_jax.envs.library.documents import COLOURS, is_reserved
from spade_jax.envs.library.family import Mechanic
from spade_jax.envs.library.travel import TravelFamily


class LeversFamily(TravelFamily):
    name = "levers"
    skill = "causal inference"
    mechanics = tuple(
        Mechanic(f"{raises}/{lowers}", c)
        for raises, lowers in itertools.permutations(COLOURS, 2)
        for c in (1, 2)
        if not is_reserved(raises, lowers)
    )
    cues = (
        "Two levers move it and each pull counts.",
        "Nobody wrote down what the levers do.",
        "Pulling a lever changes the mark on the wall.",
    )

    def colours(self, mechanic: Mechanic) -> tuple[str, ...]:
        return tuple(mechanic.rule.split("/"))

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        raises, lowers = mechanic.rule.split("/")
        return f"{raises} raises, {lowers} lowers, each pull moves {mechanic.constant}."

    def constants(self) -> range:
        return range(1, 7)

    def distance(self, amount: int, mechanic: Mechanic) -> int:
        return amount * mechanic.constant

    def amount(self, gap: int, mechanic: Mechanic) -> int:
        return max(1, gap // mechanic.constant)
