"""The client side of generated environments: sandbox sessions seen as a `rollout.World`."""

import dataclasses
from collections.abc import Sequence

from sandbox_runner import BlockingPool, EnvError, Observation, Session, StepResult
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
    """Answers replies from sandbox sessions; an environment's fault is feedback, not a crash."""

    def __init__(self, pool: BlockingPool, prompts: Prompts):
        self._pool, self._prompts = pool, prompts

    def reset(self, tasks: Sequence[Task]) -> list[Feedback]:
        seated = [task for task in tasks if isinstance(task.place.session, Session)]
        answers = iter(self._pool.reset([(task.place.session, task.seed) for task in seated]))
        return [
            self._first(next(answers), task.place.hint)
            if isinstance(task.place.session, Session)
            else Feedback(error=task.place.session)
            for task in tasks
        ]

    def step(self, replies: Sequence[tuple[Task, str]]) -> list[Feedback]:
        actions = [(task.place.session, canonical_action(reply)) for task, reply in replies]
        return [_feedback(result) for result in self._pool.step(actions)]

    def _first(self, result: Observation | EnvError, hint: str | None) -> Feedback:
        if isinstance(result, EnvError):
            return Feedback(error=result)
        text = self._prompts.render("observation", observation=result.text, hint=hint)
        return Feedback(text)


def _feedback(result: StepResult | EnvError) -> Feedback:
    if isinstance(result, EnvError):
        return Feedback(error=result)
    return Feedback(result.observation, result.reward, result.terminated, result.truncated)
