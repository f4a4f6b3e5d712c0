"""The client side of generated environments: sandbox sessions seen as a `rollout.World`."""

import dataclasses

from sandbox_runner import Batch, BlockingPool, EnvError, Observation, Session, StepResult
from spade_jax.prompts import Prompts
from spade_jax.rollout import Feedback, Task
from spade_jax.text import canonical_action


@dataclasses.dataclass(frozen=True)
class Seat:
    """Where a task plays: its session, or why there is none, and what the agent is told besides.

    The hint is text for the agent only; it never enters the environment's process.
    """

    session: Session | EnvError
    hint: str | None = None


class SandboxWorld:
    """Answers replies from sandbox sessions; an environment's fault is feedback, not a crash.

    `poll` raises RunnerError when the fault is the runner's.
    """

    def __init__(self, pool: BlockingPool, prompts: Prompts):
        self._pool, self._prompts = pool, prompts
        self._asked: dict[Batch, Task] = {}
        self._without_session: list[tuple[Task, Feedback]] = []

    def start_reset(self, task: Task) -> None:
        session = task.place.session
        if isinstance(session, Session):
            self._asked[self._pool.begin_reset(session, task.seed)] = task
        else:
            self._without_session.append((task, Feedback(error=session)))

    def start_step(self, task: Task, reply: str) -> None:
        batch = self._pool.begin_step(task.place.session, canonical_action(reply))
        self._asked[batch] = task

    def poll(self, timeout: float | None) -> list[tuple[Task, Feedback]]:
        answers, self._without_session = self._without_session, []
        for batch in self._pool.wait(self._asked, 0.0 if answers else timeout):
            task = self._asked.pop(batch)
            (result,) = batch.result()
            answers.append((task, self._feedback(result, task.place.hint)))
        return answers

    def _feedback(self, result: Observation | StepResult | EnvError, hint: str | None) -> Feedback:
        if isinstance(result, EnvError):
            return Feedback(error=result)
        if isinstance(result, Observation):
            return Feedback(self._prompts.render("observation", observation=result.text, hint=hint))
        return Feedback(result.observation, result.reward, result.terminated, result.truncated)
