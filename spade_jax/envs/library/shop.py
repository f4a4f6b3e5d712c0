"""Three prices; one of them hides a fee. The least price to pay wins."""

from spade_jax.envs.library.family import Mechanic
from spade_jax.envs.library.rounds import RoundsFamily

PLACES = ("first", "second", "third")
RESERVED_FEES = {"dev": (5, 9, 14, 20), "test": (6, 10, 16, 22)}
"""Fees that no training shop takes."""


class ShopFamily(RoundsFamily):
    """The template gives the cheap-looking price a fee of about half the range of prices."""

    name = "shop"
    skill = "optimization"
    mechanics = tuple(
        Mechanic(place, fee)
        for fee in range(2, 8)
        if not any(fee in fees for fees in RESERVED_FEES.values())
        for place in PLACES
    )
    cues = (
        "Buyers look for the least they must pay.",
        "One seller takes a fee that no sign shows.",
        "A low price is not always the best price.",
    )

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        return {"constant": mechanic.constant, "stall": PLACES.index(mechanic.rule)}

    def suits(self, mechanic: Mechanic, knob: int) -> bool:
        return knob // 3 <= mechanic.constant <= max(4, knob * 2 // 3)

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return f"Add {mechanic.constant} to the {mechanic.rule} price, then pay the least."

    def candidates(self) -> list[Mechanic]:
        return [Mechanic(place, fee) for place in PLACES for fee in range(1, 41)]

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        prices = list(question)
        prices[PLACES.index(mechanic.rule)] += mechanic.constant
        return min(prices)
