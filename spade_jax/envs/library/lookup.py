"""A ring of places; a hidden number of steps, onward or back, leads to the answer."""

from spade_jax.envs.library.family import Mechanic
from spade_jax.envs.library.rounds import RoundsFamily

TIMES = {1: "one place", 2: "two places"}


class LookupFamily(RoundsFamily):
    """The ring of a question has 4 + N // 10 places, written from anywhere on."""

    name = "lookup"
    skill = "logical deduction"
    mechanics = (Mechanic("on", 1), Mechanic("on", 2), Mechanic("back", 1))
    cues = (
        "Every door leads to exactly one other door.",
        "A note at each place names the next place.",
        "Follow the notes to see where they end.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return f"Go {mechanic.rule} by {TIMES[mechanic.constant]} in the ring."

    def candidates(self) -> tuple[Mechanic, ...]:
        return self.mechanics

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        *ring, place = question
        steps = mechanic.constant if mechanic.rule == "on" else -mechanic.constant
        return ring[(ring.index(place) + steps) % len(ring)]
