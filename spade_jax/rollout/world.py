"""What an episode is played against."""

import dataclasses
from typing import Any, Protocol

from sandbox_runner import EnvError
from spade_jax.text import Message, Tools


@dataclasses.dataclass(frozen=True)
class PlaySettings:
    """How an episode is played.

    Attributes:
        temperature: of the policy; 0 is greedy.
        max_turns: replies before the episode is truncated.
        max_new_tokens: of one reply; a reply cut there ends the episode.
        top_k, top_p: the policy says the likeliest tokens only; 0 and 1: all.
        stop_strings: texts that end a reply, besides the template's stop ids.
        timeout: seconds that a reply may take, the wait for a slot included; None: any. One cut
            there ends the episode.
    """

    temperature: float
    max_turns: int
    max_new_tokens: int
    top_k: int = 0
    top_p: float = 1.0
    stop_strings: tuple[str, ...] = ()
    timeout: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """One episode to play; equal to nothing but itself.

    Attributes:
        place: what the world needs to find the episode, for example a sandbox session.
        seed: the environment's seed.
        sample_seed: the sampler's noise seed.
        system: messages before the first observation.
    """

    place: Any
    seed: int
    sample_seed: int
    settings: PlaySettings
    system: tuple[Message, ...] = ()


@dataclasses.dataclass(frozen=True)
class Feedback:
    """A world's answer to a reply, or its first word.

    Attributes:
        text: what the user says; None: nothing, because `before` is all.
        error: voids the episode: the environment's fault.
        before: messages that come before `text`: the results of tool calls, a system message.
        tools: schemas of what the agent may call in the whole episode; read from the first word.
        malformed: the reply was no answer, or held a call that was none.
    """

    text: str | None = ""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    error: EnvError | None = None
    before: tuple[Message, ...] = ()
    tools: Tools = ()
    malformed: bool = False

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is added to the conversation."""
        return self.before if self.text is None else (*self.before, Message("user", self.text))


class World(Protocol):
    """Answers many episodes at once, each as soon as it can. `start_` methods return at once; what
    they ask for comes out of `poll`. A task waits for one answer at a time."""

    def start_reset(self, task: Task) -> None:
        """Asks for the first observation."""

    def start_step(self, task: Task, reply: str) -> None:
        """Asks what a reply leads to."""

    def poll(self, timeout: float | None) -> list[tuple[Task, Feedback]]:
        """The answers that have come, in any order, as soon as there is one or `timeout` seconds
        are over. None: as long as it takes; then no answer means that none will ever come."""


class ImmediateWorld:
    """A world that knows every answer at once: subclasses give them in `first` and `answer`."""

    def __init__(self) -> None:
        self._answers: list[tuple[Task, Feedback]] = []

    def first(self, task: Task) -> Feedback:
        """The first observation."""
        raise NotImplementedError

    def answer(self, task: Task, reply: str) -> Feedback:
        """What a reply leads to."""
        raise NotImplementedError

    def start_reset(self, task: Task) -> None:
        self._answers.append((task, self.first(task)))

    def start_step(self, task: Task, reply: str) -> None:
        self._answers.append((task, self.answer(task, reply)))

    def poll(self, timeout: float | None) -> list[tuple[Task, Feedback]]:
        answers, self._answers = self._answers, []
        return answers
