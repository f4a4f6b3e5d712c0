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
    """What was said about each design so far; `designs` are those to be repaired."""

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
        rejected = [d for d in designs if not d.accepted and d.stage not in HOPELESS]
        tasks = []
        for design in rejected:
            complaint = self._prompts.render(
                "repair", stage=design.stage, reason=design.reason, ask_hint=self._settings.ask_hint
            )
            self._said[design.name] += (Message("assistant", design.reply),)
            seed = seed_of(f"{design.name} repair {design.repairs + 1}")
            said = self._said[design.name]
            tasks.append(Task(complaint, 0, seed, play_settings(self._settings), said))
            self._said[design.name] += (Message("user", complaint),)
        episodes = play(engine, chat, PromptWorld(), tasks)
        answered = []
        for design, episode in zip(rejected, episodes, strict=True):
            if any(row.num_sampled() for row in episode.trajectories):
                design.reopen()
                read_answer(design, episode, self._settings)
                answered.append(design)
        return answered
