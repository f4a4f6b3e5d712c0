"""Up or down by a number of floors; the words may be swapped and every move slips further."""

from spade_jax.envs.library.family import Mechanic
from spade_jax.envs.library.travel import TravelFamily


class LiftFamily(TravelFamily):
    name = "lift"
    skill = "spatial reasoning"
    mechanics = tuple(Mechanic(rule, c) for rule in ("up/down", "down/up") for c in (0, 1, 3))
    cues = (
        "It goes up and down between the floors.",
        "Each ride ends a little too far.",
        "The up and down signs may be wrong.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        raises, lowers = mechanic.rule.split("/")
        return f"{raises} raises, {lowers} lowers, each move goes {mechanic.constant} further."

    def constants(self) -> range:
        return range(7)

    def distance(self, amount: int, mechanic: Mechanic) -> int:
        return amount + mechanic.constant

    def amount(self, gap: int, mechanic: Mechanic) -> int:
        # A gap below the slip needs an overshoot of exactly the slip, then a move of zero.
        return gap - mechanic.constant if gap >= mechanic.constant else gap
