"""A gauge tells how far, or how near, a try was, plus a hidden offset."""

from collections.abc import Sequence

from spade_jax.envs.library.family import Family, Mechanic, Turn, numbers

ADVICE = {
    "far": "Try 0 first. The answer is what it shows minus {0}.",
    "near": "Try 0 first. The answer is {0} minus what it shows.",
}


class DialFamily(Family):
    """Observations: "NOUN dial 0 12", then "5 shows 8" after a try of 5."""

    name = "dial"
    skill = "optimization"
    turns = 3
    mechanics = tuple(Mechanic(rule, c) for rule in ("far",) for c in range(1, 5))
    cues = (
        "It must be tuned and a needle shows how good it is.",
        "The needle moves as one comes near the best place.",
        "Finding the best setting takes a few tries.",
    )

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return ADVICE[mechanic.rule].format(self.effective(mechanic, knob).constant)

    def effective(self, mechanic: Mechanic, knob: int) -> Mechanic:
        """For "near", the constant that a try at 0 is taken from: N + 8 plus the offset."""
        top = knob + 8 if mechanic.rule == "near" else 0
        return Mechanic(mechanic.rule, mechanic.constant + top)

    def places(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> list[int]:
        """Answers that agree with every reply under an effective mechanic."""
        top = numbers(turns[0][0] if turns else observation)[1]
        readings = [numbers(text) for text in [*(text for text, _ in turns[1:]), observation]]
        if not turns:
            return list(range(1, top + 1))
        return [
            place
            for place in range(1, top + 1)
            if all(_shows(guess, place, top, mechanic) == shown for guess, shown in readings)
        ]

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        top = numbers(turns[0][0] if turns else observation)[1]
        options = [Mechanic("far", c) for c in range(9)]
        options += [Mechanic("near", top + c) for c in range(9)]
        return [option for option in options if self.places(turns, observation, option)]

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        places = self.places(turns, observation, mechanic)
        if not turns:
            return "0"
        return str(places[0]) if places else "0"


def _shows(guess: int, place: int, top: int, mechanic: Mechanic) -> int:
    gap = abs(guess - place)
    if mechanic.rule == "far":
        return mechanic.constant + gap
    return mechanic.constant - top + abs(top - gap)
