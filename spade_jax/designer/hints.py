"""Hints that are not written with the source, and hints that say too much."""

import re
from collections.abc import Sequence

from sandbox_runner import BlockingPool, EnvError, Observation
from sandbox_runner.validation import secret_of, shows
from spade_jax.designer.advice import Ask
from spade_jax.designer.environment import Environment
from spade_jax.prompts import Prompts
from spade_jax.text import after_code, code_block

_LABEL = re.compile(r"^[ \t*#]*hint[ \t*]*:[ \t*]*", re.IGNORECASE | re.MULTILINE)


def write_hints(
    ask: Ask,
    prompts: Prompts,
    environments: Sequence[Environment],
    seeds: Sequence[int],
    max_words: int,
) -> None:
    """One hint for each environment, from its source alone: no seed is known to who writes it. It
    is asked for in less than `max_words` words and may be longer.

    An environment that gets none is rejected as "hint", and excused.
    """
    questions = [
        prompts.render("hint", source=environment.source, max_words=max_words)
        for environment in environments
    ]
    for environment, answer in zip(environments, ask(questions, seeds), strict=True):
        environment.hint = _hint_in(answer.text)
        if not environment.hint:
            environment.excuse("hint", answer.problem or "no hint in the answer")


def _hint_in(text: str) -> str:
    """One line: what follows a label "Hint:", if there is one. A program is no hint."""
    text = after_code(text) or text
    label = _LABEL.search(text)
    hint = text[label.end() :] if label else text
    return "" if code_block(hint) else " ".join(hint.split())


def check_leaks(
    pool: BlockingPool,
    environments: Sequence[Environment],
    seeds: Sequence[int],
    share: float,
    max_turns: int,
) -> None:
    """Marks hints as leaked that hold the whole answer on at least `share` of the seeds.

    The answer is what validation takes for it in the reference solution, of three characters or
    more, and it must stand in the hint as words of their own. Without a solution nothing leaks.
    """
    shown = _shown(pool, environments, seeds, max_turns)
    for environment, count in zip(environments, shown, strict=True):
        environment.leaked = count >= share * len(seeds)


def _shown(
    pool: BlockingPool, environments: Sequence[Environment], seeds: Sequence[int], max_turns: int
) -> list[int]:
    """On how many of the seeds each environment's hint holds the whole answer."""
    counts = [0] * len(environments)
    opened = pool.open(
        [environment.source for environment in environments],
        [environment.shareable for environment in environments],
        max_turns,
    )
    lanes = [
        (index, session)
        for index, session in enumerate(opened)
        if not isinstance(session, EnvError)
    ]
    try:
        for seed in seeds:
            starts = pool.reset([(session, seed) for _, session in lanes])
            solutions = pool.solution([session for _, session in lanes])
            for (index, _), start, solution in zip(lanes, starts, solutions, strict=True):
                if isinstance(start, Observation) and isinstance(solution, str):
                    secret = secret_of(solution, bool(start.tools))
                    counts[index] += shows(environments[index].hint, secret)
    finally:
        pool.close([session for _, session in lanes])
    return counts
