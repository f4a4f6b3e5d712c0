"""What a model thinks of an environment: can it be solved as written, and did it work in play?"""

from collections.abc import Sequence

from spade_jax.designer.advice import UNKNOWN, Answer, Ask, verdict
from spade_jax.designer.environment import Environment
from spade_jax.prompts import Prompts
from spade_jax.rollout import Episode

SOLVABLE, UNSOLVABLE = "solvable", "unsolvable"
WORKS, BROKEN = "works", "broken"


def audit(
    ask: Ask,
    prompts: Prompts,
    environments: Sequence[Environment],
    seeds: Sequence[int],
    accept_unknown: bool,
) -> None:
    """Notes the verdict on each environment and rejects what can not be solved.

    An answer without a verdict, an empty one and none at all are `UNKNOWN`. Where that is not
    accepted, it rejects too, and the designer is excused.
    """
    questions = [
        prompts.render("audit", source=environment.source) for environment in environments
    ]
    for environment, answer in zip(environments, ask(questions, seeds), strict=True):
        environment.audit = verdict(answer, (SOLVABLE, UNSOLVABLE))
        if environment.audit == UNSOLVABLE:
            environment.reject("audit", _reason(answer))
        elif environment.audit == UNKNOWN and not accept_unknown:
            environment.excuse("audit", answer.problem or f"no verdict: {_reason(answer)}")


def judge(
    ask: Ask, prompts: Prompts, played: Sequence[tuple[Environment, Episode]], seeds: Sequence[int]
) -> list[str]:
    """Whether each environment works, seen from its source and one play of it."""
    questions = [
        prompts.render("judge", source=environment.source, transcript=episode.transcript)
        for environment, episode in played
    ]
    return [verdict(answer, (WORKS, BROKEN)) for answer in ask(questions, seeds)]


def _reason(answer: Answer) -> str:
    return " ".join(answer.text.split())[:500]
