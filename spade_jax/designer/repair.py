"""Repair turns: a rejected design is shown why, in the same conversation, and answers anew."""

from collections.abc import Callable, Sequence

from spade_jax.designer.design import (
    DesignRequest,
    DesignSettings,
    PromptWorld,
    play_settings,
    prompt_of,
    read_answer,
)
from spade_jax.designer.environment import Environment
from spade_jax.prompts import Prompts
from spade_jax.rollout import Task, play
from spade_jax.sampler import Engine
from spade_jax.text import ChatRenderer, Message

HOPELESS = frozenset({"context", "cut"})  # there is no room for, or no end of, an answer


class Conversations:
    """What designer and trainer have said to each other about each design so far."""

    def __init__(
        self, prompts: Prompts, requests: Sequence[DesignRequest], settings: DesignSettings
    ):
        self._prompts, self._settings = prompts, settings
        self._said = {
            request.name: (Message("user", prompt_of(prompts, request, settings)),)
            for request in requests
        }

    def repair(
        self,
        engine: Engine,
        chat: ChatRenderer,
        designs: Sequence[Environment],
        seed_of: Callable[[str], int],
    ) -> list[Environment]:
        """One more answer for each rejected design, read but not yet validated. The designs
        themselves become what the answers hold; their trajectory stays the first answer's.

        Args:
            seed_of: a seed from a label.

        Returns:
            Those that answered.
        """
        rejected = [
            d for d in designs
            if not (d.accepted or d.excused or d.stage in HOPELESS)
        ]  # fmt: skip
        tasks = []
        for design in rejected:
            complaint = self._prompts.render(
                "repair", stage=design.stage, reason=design.reason,
                inline_hint=self._settings.inline_hint,
            )  # fmt: skip
            said = (*self._said[design.name], Message("assistant", design.reply))
            self._said[design.name] = (*said, Message("user", complaint))
            seed = seed_of(f"{design.name} repair {design.repaired + 1}")
            tasks.append(Task(complaint, 0, seed, play_settings(self._settings), said))
        answered = []
        for design, episode in zip(
            rejected, play(engine, chat, PromptWorld(), tasks), strict=True
        ):
            if episode.trajectories:  # else there was no room or no time for an answer
                design.reopen()
                read_answer(design, episode, self._settings)
                answered.append(design)
        return answered
