"""Families that ask one question a turn; two right answers win and a wrong one is corrected."""

from collections.abc import Iterable, Sequence

from spade_jax.envs.library.family import Family, Mechanic, Turn, numbers


class RoundsFamily(Family):
    """A subclass gives `answer` and `candidates`; questions and corrections are read here."""

    turns = 4

    def answer(self, question: list[int], mechanic: Mechanic) -> int:
        """The right answer to a question's numbers under an effective mechanic."""
        raise NotImplementedError

    def candidates(self) -> Iterable[Mechanic]:
        """Effective mechanics worth considering before anything was seen."""
        raise NotImplementedError

    @staticmethod
    def question(observation: str) -> list[int]:
        return numbers(observation.rsplit(",", 1)[-1])

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        return str(self.answer(self.question(observation), mechanic))

    def beliefs(self, turns: Sequence[Turn], observation: str) -> list[Mechanic]:
        replies = [later for later, _ in turns[1:]] + [observation]
        known = []
        for (asked, action), reply in zip(turns, replies, strict=False):
            right = action if reply.startswith("yes") else str(numbers(reply)[0])
            known.append((self.question(asked), right))
        return [
            mechanic
            for mechanic in self.candidates()
            if all(str(self.answer(asked, mechanic)) == right for asked, right in known)
        ]
