"""The families that training never shows: other mechanics behind observations of a known shape."""

import pathlib
from collections.abc import Sequence

from spade_jax.envs.library.family import TEMPLATES, Mechanic, Turn
from spade_jax.envs.library.rounds import RoundsFamily
from spade_jax.envs.library.travel import TravelFamily

_FOLDERS = (TEMPLATES, pathlib.Path(__file__).parent / "templates")


class UnseenRounds(RoundsFamily):
    folders = _FOLDERS
    amounts = range(1, 12)
    rules: tuple[str, str]

    def candidates(self) -> list[Mechanic]:
        return [Mechanic(rule, amount) for rule in self.rules for amount in self.amounts]


class RingFamily(UnseenRounds):
    """Adding or taking on a ring of N + 3 numbers that starts at 0."""

    name = "ring"
    skill = "mathematical reasoning"
    rules = ("add", "take")

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        word = {"add": "Add {0} to", "take": "Take {0} from"}[mechanic.rule]
        return f"{word.format(mechanic.constant)} the number; {knob + 3} is 0 again."

    def effective(self, mechanic: Mechanic, knob: int) -> Mechanic:
        """The rule then also names the ring's size."""
        return Mechanic(f"{mechanic.rule} {knob + 3}", mechanic.constant)

    def candidates(self) -> list[Mechanic]:
        sizes = range(9, 40)
        return [
            Mechanic(f"{rule} {size}", c)
            for rule in self.rules
            for size in sizes
            for c in self.amounts
        ]

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        rule, size = mechanic.rule.split()
        sign = 1 if rule == "add" else -1
        return (question[0] + sign * mechanic.constant) % int(size)


class AuctionFamily(UnseenRounds):
    name = "auction"
    skill = "optimization"
    rules = ("middle", "largest")

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return f"Add {mechanic.constant} to the {mechanic.rule} price."

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        place = 1 if mechanic.rule == "middle" else 2
        return sorted(question)[place] + mechanic.constant


class DoubleFamily(UnseenRounds):
    name = "double"
    skill = "mathematical reasoning"
    rules = ("add", "take")

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return f"Add the number to itself, then {mechanic.rule} {mechanic.constant}."

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        sign = 1 if mechanic.rule == "add" else -1
        return 2 * question[0] + sign * mechanic.constant


class MidwayFamily(UnseenRounds):
    name = "midway"
    skill = "pattern recognition"
    rules = ("add", "take")

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return f"Take the number halfway between both, then {mechanic.rule} {mechanic.constant}."

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        sign = 1 if mechanic.rule == "add" else -1
        return max(0, sum(question) // 2 + sign * mechanic.constant)


class TankFamily(TravelFamily):
    """Every move up or down is followed by a fall, or a rise, of a hidden amount."""

    name = "tank"
    skill = "causal inference"
    folders = _FOLDERS

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        falls = mechanic.rule == "falls"
        return {"constant": mechanic.constant, "raises": "up", "lowers": "down", "falls": falls}

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return f"up raises, down lowers, then it {mechanic.rule} by {mechanic.constant}."

    def moved(self, at: int, action: str, mechanic: Mechanic) -> int:
        word, _, amount = action.partition(" ")
        sign = -1 if mechanic.rule == "falls" else 1
        step = int(amount) if word == "up" else -int(amount)
        return max(0, min(99, at + step + sign * mechanic.constant))

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        options = [Mechanic(rule, c) for rule in ("falls", "rises") for c in range(7)]
        return self.agreeing(options, turns, observation)

    def move(self, at: int, goal: int, mechanic: Mechanic) -> str:
        step = goal - at + (mechanic.constant if mechanic.rule == "falls" else -mechanic.constant)
        return f"{'up' if step >= 0 else 'down'} {abs(step)}"


class SpringFamily(TravelFamily):
    """One of the two words moves by twice the amount."""

    name = "spring"
    skill = "spatial reasoning"
    folders = _FOLDERS

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        return {"strong": mechanic.rule}

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        return f"up raises, down lowers, each {mechanic.rule} counts twice."

    def moved(self, at: int, action: str, mechanic: Mechanic) -> int:
        word, _, amount = action.partition(" ")
        size = int(amount) * (2 if word == mechanic.rule else 1)
        return max(0, min(99, at + (size if word == "up" else -size)))

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        options = [Mechanic(rule, 2) for rule in ("up", "down")]
        return self.agreeing(options, turns, observation)

    def move(self, at: int, goal: int, mechanic: Mechanic) -> str:
        word, gap = ("up" if goal > at else "down"), abs(goal - at)
        return f"{word} {-(-gap // 2) if word == mechanic.rule else gap}"
