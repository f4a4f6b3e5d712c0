"""The one episode loop. Designing, playing, playing with a hint and evaluating are all data to it.

A `Task` says what the model sees first and how it samples; a `World` answers its replies. Worlds
are batched: everything that is ready goes to the sandbox or to the sampler together.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from sandbox_runner import EnvError
from spade_jax.rollout.trajectory import Trajectory
from spade_jax.sampler import ContextError, Engine, Handle, Request, Turn
from spade_jax.text import ChatRenderer, Message


@dataclasses.dataclass(frozen=True)
class Task:
    """One episode to play.

    Attributes:
        place: what the world needs to find the episode, for example a sandbox session.
        seed: the environment's seed.
        sample_seed: the sampler's noise seed.
        temperature: of the policy; 0 is greedy.
        max_turns: replies before the episode is truncated.
        max_new_tokens: of one reply; a reply cut there ends the episode as truncated.
        system: messages before the first observation.
    """

    place: Any
    seed: int
    sample_seed: int
    temperature: float
    max_turns: int
    max_new_tokens: int
    system: tuple[Message, ...] = ()


@dataclasses.dataclass(frozen=True)
class Feedback:
    """A world's answer to a reply. `error` voids the episode: the environment's fault."""

    text: str = ""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    error: EnvError | None = None


class World(Protocol):
    """Answers many episodes at once, in the order given."""

    def reset(self, tasks: Sequence[Task]) -> list[Feedback]:
        """The first observation of each task."""

    def step(self, replies: Sequence[tuple[Task, str]]) -> list[Feedback]:
        """What each reply leads to."""


@dataclasses.dataclass
class Episode:
    """A played task.

    Attributes:
        outcome: "terminated", "truncated" (the environment or `max_turns`), "cut" (a reply hit its
            token limit), "context" (no room for the next turn) or "void" (environment error).
        reward: of the last step.
    """

    task: Task
    trajectory: Trajectory = dataclasses.field(default_factory=Trajectory)
    transcript: list[Message] = dataclasses.field(default_factory=list)
    outcome: str = ""
    reward: float = 0.0
    error: EnvError | None = None

    @property
    def replies(self) -> list[str]:
        return [message.content for message in self.transcript if message.role == "assistant"]

    @property
    def final_return(self) -> float:
        """The last reward, clipped to [-1, 1], if the episode terminated; else 0 (paper, section 3:
        sparse episode return; shaping before the end is ignored)."""
        return max(-1.0, min(1.0, self.reward)) if self.outcome == "terminated" else 0.0


def play(engine: Engine, chat: ChatRenderer, world: World, tasks: Sequence[Task]) -> list[Episode]:
    """Plays every task to its end; episodes come back in the order of the tasks."""
    episodes = [Episode(task) for task in tasks]
    open_episodes: dict[Handle, Episode] = {}
    for episode, first in zip(episodes, world.reset(tasks), strict=True):
        _open(engine, chat, episode, first, open_episodes)
    while open_episodes:
        ready = [turn for turn in engine.advance() if _record(turn, open_episodes, chat)]
        pairs = [(open_episodes[turn.handle], turn.handle) for turn in ready]
        answers = world.step([(episode.task, episode.replies[-1]) for episode, _ in pairs])
        for (episode, handle), answer in zip(pairs, answers, strict=True):
            _continue(chat, episode, handle, answer)
            if episode.outcome:
                _end(handle, open_episodes)
    return episodes


def _open(engine, chat, episode: Episode, first: Feedback, open_episodes: dict) -> None:
    if first.error is not None:
        episode.outcome, episode.error = "void", first.error
        return
    task = episode.task
    episode.transcript += [*task.system, Message("user", first.text)]
    tokens = chat.open(episode.transcript)
    request = Request(
        tokens, task.max_new_tokens, task.sample_seed, task.temperature, chat.stop_ids
    )
    try:
        handle = engine.submit(request)
    except ContextError:
        episode.outcome = "context"
        return
    episode.trajectory.temperature = task.temperature
    episode.trajectory.append_context(tokens)
    open_episodes[handle] = episode


def _record(turn: Turn, open_episodes: dict, chat: ChatRenderer) -> bool:
    """Appends a finished turn; False when it was cut: that ends the episode."""
    episode = open_episodes[turn.handle]
    episode.trajectory.append_sampled(turn.tokens, turn.logprobs, turn.version)
    episode.transcript.append(Message("assistant", chat.decode(turn.tokens)))
    if not turn.stopped:
        episode.outcome = "cut"
        _end(turn.handle, open_episodes)
    return turn.stopped


def _continue(chat: ChatRenderer, episode: Episode, handle: Handle, answer: Feedback) -> None:
    if answer.error is not None:
        episode.outcome, episode.error = "void", answer.error
        return
    episode.reward = answer.reward
    message = Message("user", answer.text)
    if answer.terminated or answer.truncated or len(episode.replies) >= episode.task.max_turns:
        episode.outcome = "terminated" if answer.terminated else "truncated"
        episode.transcript.append(message)
        return
    tokens = chat.extend([message])
    try:
        handle.extend(tokens, episode.task.max_new_tokens)
    except ContextError:
        episode.outcome = "context"
        return
    episode.trajectory.append_context(tokens)
    episode.transcript.append(message)


def _end(handle: Handle, open_episodes: dict) -> None:
    handle.close()
    del open_episodes[handle]
