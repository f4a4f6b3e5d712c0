"""The client side of generated environments: sandbox sessions seen as a `rollout.World`."""

import dataclasses

from sandbox_runner import Batch, BlockingPool, EnvError, Observation, Session, StepResult
from spade_jax.envs.opening import opening
from spade_jax.prompts import Prompts
from spade_jax.rollout import Feedback, Task
from spade_jax.text import Message, canonical_action


@dataclasses.dataclass(frozen=True)
class Seat:
    """Where a task plays: its session, or why there is none, and what the agent is told besides.

    The hint is text for the agent only; it never enters the environment's process.
    """

    session: Session | EnvError
    hint: str | None = None


class SandboxWorld:
    """Answers replies from sandbox sessions; an environment's fault is feedback, not a crash.

    An environment that shows tools gets replies whole, another one the boxed action alone. `poll`
    raises RunnerError when the fault is the runner's.
    """

    def __init__(self, pool: BlockingPool, prompts: Prompts, hint_style: str = "append"):
        """`hint_style`: one of HINT_STYLES."""
        self._pool, self._prompts, self._hint_style = pool, prompts, hint_style
        self._asked: dict[Batch, Task] = {}
        self._use_tools: set[Task] = set()
        self._without_session: list[tuple[Task, Feedback]] = []

    def start_reset(self, task: Task) -> None:
        session = task.place.session
        if isinstance(session, Session):
            self._asked[self._pool.begin_reset(session, task.seed)] = task
        else:
            self._without_session.append((task, Feedback(error=session)))

    def start_step(self, task: Task, reply: str) -> None:
        action = canonical_action(reply, task in self._use_tools)
        self._asked[self._pool.begin_step(task.place.session, action)] = task

    def poll(self, timeout: float | None) -> list[tuple[Task, Feedback]]:
        answers, self._without_session = self._without_session, []
        for batch in self._pool.wait(self._asked, 0.0 if answers else timeout):
            task = self._asked.pop(batch)
            (result,) = batch.result()
            answers.append((task, self._feedback(task, result)))
        return answers

    def _feedback(self, task: Task, result: Observation | StepResult | EnvError) -> Feedback:
        if isinstance(result, EnvError):
            return Feedback(error=result)
        if isinstance(result, StepResult):
            return answer(result)
        if result.tools:
            self._use_tools.add(task)
        *before, first = opening(
            self._prompts, result.text, task.place.hint, self._hint_style, bool(result.tools)
        )
        return Feedback(first.content, before=tuple(before), tools=result.tools)


def answer(step: StepResult) -> Feedback:
    """What an agent reads after a step; the warm start renders its rows with this same function.

    Each tool's result is a message of its own; the user says what else was observed.
    """
    text, results = step.observation, step.tool_results or ()
    if results:
        joined = "\n".join(results)
        text = None if text == joined else text.removeprefix(f"{joined}\n")
    return Feedback(
        text, step.reward, step.terminated, step.truncated,
        before=tuple(Message("tool", result) for result in results), malformed=step.malformed,
    )  # fmt: skip
