"""The one episode loop. Designing, playing, playing with a hint and evaluating are all data to it.

A `Task` says what the model sees first and how it samples; a `World` answers its replies. While
environments compute, the others' slots decode, and nobody waits for the slowest.
"""

import dataclasses
import time
from collections.abc import Sequence

from sandbox_runner import EnvError
from spade_jax.rollout.trajectory import Trajectory
from spade_jax.rollout.world import Feedback, Task, World
from spade_jax.sampler import ContextError, Engine, Handle, Request, Turn
from spade_jax.text import ChatRenderer, Message, Tools

LOOK = 0.01  # seconds between two looks at the world while the sampler runs
MOMENT = 0.005  # seconds in which most environments answer, and their slots join the next dispatch


@dataclasses.dataclass
class Episode:
    """A played task.

    Attributes:
        outcome: "terminated", "truncated" (the environment or `max_turns`), "cut" (a reply hit its
            token limit), "deadline" (a reply took too long), "context" (no room for the next turn)
            or "void" (environment error).
        trajectories: rows that together hold each sampled token once, in the context in which it
            was sampled. One, unless the chat template rewrites history (`ChatRenderer.resume`);
            none when nothing was sampled.
        reward: of the last step.
        tools: schemas of what the agent may call; without any it is a game.
    """

    task: Task
    trajectories: list[Trajectory] = dataclasses.field(default_factory=list)
    transcript: list[Message] = dataclasses.field(default_factory=list)
    outcome: str = ""
    reward: float = 0.0
    error: EnvError | None = None
    tools: Tools = ()

    @property
    def replies(self) -> list[str]:
        return [message.content for message in self.transcript if message.role == "assistant"]

    @property
    def unfinished(self) -> bool:
        """Whether it ended for want of tokens, time or room, not by the environment."""
        return self.outcome in ("cut", "deadline", "context")

    def num_sampled(self) -> int:
        return sum(row.num_sampled() for row in self.trajectories)

    def num_malformed(self) -> int:
        """Replies that the environment found malformed."""
        return sum(len(row.malformed) for row in self.trajectories)

    @property
    def final_return(self) -> float:
        """The last reward, clipped to [-1, 1], if the episode terminated; else 0 (paper, section 3:
        sparse episode return; shaping before the end is ignored)."""
        return max(-1.0, min(1.0, self.reward)) if self.outcome == "terminated" else 0.0


def play(engine: Engine, chat: ChatRenderer, world: World, tasks: Sequence[Task]) -> list[Episode]:
    """Plays every task to its end; episodes come back in the order of the tasks.

    What is in them does not depend on how long anybody takes, as far as the engine keeps its
    promise (see its module). Whatever is raised, no handle stays open in the engine.

    Raises:
        ValueError: a task is there twice.
        RuntimeError: episodes are open, but neither the engine nor the world can go on.
    """
    table = _Table(engine, chat, world, tasks)
    try:
        table.run()
    finally:
        table.close()
    return list(table.episodes.values())


class _Table:
    """Episodes in play. Each waits for the world or for the engine, or has an outcome."""

    def __init__(self, engine: Engine, chat: ChatRenderer, world: World, tasks: Sequence[Task]):
        self._engine, self._chat, self._world = engine, chat, world
        self.episodes = {task: Episode(task) for task in tasks}
        if len(self.episodes) < len(tasks):
            raise ValueError("a task is played once: make another for another episode")
        self._asked: set[Task] = set()  # the world owes them an answer
        self._handles: dict[Task, Handle] = {}
        self._owners: dict[Handle, Task] = {}

    def run(self) -> None:
        for task in self.episodes:
            self._asked.add(task)
            self._world.start_reset(task)
        fresh, engine_rests = 0, False
        while self._asked or self._handles:
            answers = self._listen(fresh, engine_rests) if self._asked else []
            if engine_rests and not answers:
                raise RuntimeError(
                    f"neither the engine nor an environment can go on: {len(self._asked)} episodes "
                    f"wait for answers, {len(self._handles)} have a place in the engine"
                )
            for task, feedback in answers:
                self._take_answer(task, feedback)
            turns = self._engine.advance(LOOK if self._asked else None)
            for turn in turns:
                self._take_turn(turn)
            fresh = sum(turn.stopped for turn in turns)
            engine_rests = not turns and not self._engine.running

    def close(self) -> None:
        for handle in self._owners:
            handle.close()

    def _listen(self, fresh: int, engine_rests: bool) -> list[tuple[Task, Feedback]]:
        """Answers of the world, which is given a moment for `fresh` questions that are new."""
        if engine_rests:
            return self._poll(None)
        answers, end = self._poll(0.0), time.monotonic() + MOMENT
        while len(answers) < fresh and (left := end - time.monotonic()) > 0:
            if not (more := self._poll(left)):
                break
            answers += more
        return answers

    def _poll(self, timeout: float | None) -> list[tuple[Task, Feedback]]:
        with self._engine.waiting():
            return self._world.poll(timeout)

    def _take_answer(self, task: Task, answer: Feedback) -> None:
        self._asked.remove(task)
        episode = self.episodes[task]
        if answer.error is not None:
            episode.outcome, episode.error = "void", answer.error
        elif task in self._handles:
            self._go_on(episode, answer)
        else:
            self._open(episode, answer)
        if episode.outcome:
            self._leave(task)

    def _open(self, episode: Episode, first: Feedback) -> None:
        task, how, chat = episode.task, episode.task.settings, self._chat
        episode.tools = first.tools
        episode.transcript += [*task.system, *first.messages]
        tokens = chat.open(episode.transcript, first.tools)
        request = Request(
            tokens, how.max_new_tokens, task.sample_seed, how.temperature, chat.stop_ids,
            how.top_k, how.top_p, how.stop_strings, chat.decode, how.timeout,
        )  # fmt: skip
        try:
            handle = self._engine.submit(request)
        except ContextError:
            episode.outcome = "context"
            return
        self._handles[task], self._owners[handle] = handle, task
        row = Trajectory(temperature=how.temperature)
        row.append_context(tokens)
        episode.trajectories.append(row)

    def _go_on(self, episode: Episode, answer: Feedback) -> None:
        task = episode.task
        episode.reward = answer.reward
        row = episode.trajectories[-1]
        if answer.malformed:
            row.mark_malformed()
        if answer.terminated or answer.truncated or len(episode.replies) >= task.settings.max_turns:
            episode.outcome = "terminated" if answer.terminated else "truncated"
            episode.transcript += answer.messages
            return
        stopped_by_id = row.tokens[-1] in self._chat.stop_ids
        closed = [*row.tokens, *(() if stopped_by_id else self._chat.truncate_suffix)]
        said = [*episode.transcript, *answer.messages]
        kept, tail = self._chat.resume(closed, said, episode.tools)
        rewritten = kept < len(row.tokens)
        if not rewritten:
            tail = [*closed[len(row.tokens) : kept], *tail]
        try:
            self._handles[task].extend(
                tail, task.settings.max_new_tokens, kept if rewritten else None
            )
        except ContextError:
            episode.outcome = "context"
            return
        if rewritten:
            row = row.branch(kept)
            episode.trajectories.append(row)
        row.append_context(tail)
        episode.transcript += answer.messages

    def _take_turn(self, turn: Turn) -> None:
        """Notes a finished turn and shows it to the world, unless it was cut."""
        task = self._owners[turn.handle]
        episode = self.episodes[task]
        reply = self._chat.decode(turn.tokens)
        if turn.tokens:  # none when its time was over before it had a slot
            episode.trajectories[-1].append_sampled(turn.tokens, turn.logprobs, turn.version)
            episode.transcript.append(Message("assistant", reply))
        if turn.stopped:
            self._asked.add(task)
            self._world.start_step(task, reply)
        else:
            episode.outcome = "deadline" if turn.end == "deadline" else "cut"
            self._leave(task)

    def _leave(self, task: Task) -> None:
        episode = self.episodes[task]
        episode.trajectories = [row for row in episode.trajectories if row.num_sampled()]
        handle = self._handles.pop(task, None)
        if handle is not None:
            del self._owners[handle]
            handle.close()
