"""Links such as 4>9; a hidden number of hops, forward or backward, leads to the answer."""

from spade_jax.envs.library.family import Mechanic
from spade_jax.envs.library.rounds import RoundsFamily

TIMES = {1: "once", 2: "twice", 3: "three times"}


class LookupFamily(RoundsFamily):
    """The links of a question form one ring of 3 + N // 10 places."""

    name = "lookup"
    skill = "logical deduction"
    mechanics = (Mechanic("forward", 1), Mechanic("backward", 1))
    cues = (
        "Every door leads to exactly one other door.",
        "A note at each place names the next place.",
        "Follow the notes to see where they end.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return f"Follow the arrows {mechanic.rule} {TIMES[mechanic.constant]}."

    def candidates(self) -> tuple[Mechanic, ...]:
        return self.mechanics

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        *flat, place = question
        links = dict(zip(flat[::2], flat[1::2], strict=True))
        if mechanic.rule == "backward":
            links = {after: before for before, after in links.items()}
        for _ in range(mechanic.constant):
            place = links[place]
        return place
