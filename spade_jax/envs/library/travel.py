"""Families that move one number to a goal with two words, each followed by an amount."""

from collections.abc import Iterable, Sequence

import numpy as np

from spade_jax.envs.library.family import MOVE_FORMAT, Family, Mechanic, Turn, numbers


class TravelFamily(Family):
    """A rule is "raising/lowering", two words. A subclass says how far an amount moves.

    Observations are "NOUN at 3 go 9", the first one followed by "with WORD or WORD".
    """

    turns = 4
    reply = MOVE_FORMAT

    def distance(self, amount: int, mechanic: Mechanic) -> int:
        raise NotImplementedError

    def amount(self, gap: int, mechanic: Mechanic) -> int:
        """The amount that bridges a positive gap, or comes near."""
        raise NotImplementedError

    def constants(self) -> Iterable[int]:
        """Constants worth considering before anything was seen."""
        raise NotImplementedError

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        raises, lowers = mechanic.rule.split("/")
        return {"constant": mechanic.constant, "raises": raises, "lowers": lowers}

    def moved(self, at: int, action: str, mechanic: Mechanic) -> int:
        raises, lowers = mechanic.rule.split("/")
        word, _, amount = action.partition(" ")
        size = self.distance(int(amount), mechanic)
        return max(0, min(99, at + size * ((word == raises) - (word == lowers))))

    def agreeing(
        self, options: Iterable[Mechanic], turns: Sequence[Turn], observation: str
    ) -> list[Mechanic]:
        """The options under which every move ended where the agent saw it end."""
        places = [numbers(seen)[0] for seen, _ in turns] + [numbers(observation)[0]]
        steps = list(zip(places, (action for _, action in turns), places[1:], strict=False))
        return [
            option
            for option in options
            if all(self.moved(at, action, option) == after for at, action, after in steps)
        ]

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        first, second = words(turns[0][0] if turns else observation)
        rules = (f"{first}/{second}", f"{second}/{first}")
        options = [Mechanic(rule, constant) for rule in rules for constant in self.constants()]
        return self.agreeing(options, turns, observation)

    def move(self, at: int, goal: int, mechanic: Mechanic) -> str:
        raises, lowers = mechanic.rule.split("/")
        return f"{raises if goal > at else lowers} {self.amount(abs(goal - at), mechanic)}"

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        at, goal = numbers(observation)[:2]
        return self.move(at, goal, mechanic)

    def careless(self, turns: Sequence[Turn], observation: str, rng: np.random.Generator) -> str:
        at, goal = numbers(observation)[:2]
        word = words(turns[0][0] if turns else observation)[int(rng.integers(2))]
        return f"{word} {int(rng.integers(0, abs(goal - at) + 4))}"


def words(first_observation: str) -> list[str]:
    """The two words a first observation offers, in its order."""
    return first_observation.rsplit(" with ", 1)[1].split(" or ")
