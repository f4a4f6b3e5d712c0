"""From sources to verdicts: rounds of play, each followed by the rules it makes judgeable."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox_runner.pool import BlockingPool
from sandbox_runner.types import Verdict
from sandbox_runner.validation import rounds, stages
from sandbox_runner.validation.evidence import Evidence

SEEDS = (3, 17, 29, 40, 58, 71, 86, 94)
_WAVE = 16  # programs at once; each takes two children
_PLAN = (
    (rounds.load, ()),
    (rounds.fresh, (stages.determinism,)),
    (rounds.crowded, (stages.isolation,)),
    (rounds.robust, (stages.termination,)),
    (rounds.starts, (stages.determinism,)),
    (rounds.solve, (stages.determinism, stages.solution, stages.constant)),
    (rounds.blind, (stages.trivial, stages.leak)),
    (rounds.last, (stages.isolation,)),
)


def validate(
    pool: BlockingPool,
    sources: Sequence[str],
    max_turns: int = 12,
    seeds: Sequence[int] = SEEDS,
) -> list[Verdict]:
    """One verdict per source, in order; all are processed side by side.

    Raises RunnerError when the runner itself fails. `seeds` are those that solutions and policies
    are tried on; at least two.
    """
    if len(seeds) < 2:
        raise ValueError("validation needs at least two seeds")
    verdicts: list[Verdict] = []
    for start in range(0, len(sources), _WAVE):
        wave = [Evidence(s, max_turns, tuple(seeds)) for s in sources[start : start + _WAVE]]
        _examine(pool, wave)
        verdicts += [evidence.verdict() for evidence in wave]  # the evidence may be large
    return verdicts


def _examine(pool: BlockingPool, wave: list[Evidence]) -> None:
    try:
        for gather, rules in _PLAN:
            batch = [evidence for evidence in wave if evidence.rejection is None]
            if not batch:
                return
            gather(pool, batch)
            for evidence in batch:
                _judge(evidence, rules)
            if gather is rounds.crowded:
                for evidence in batch:
                    evidence.shareable = evidence.crowded is not None and not evidence.rejection
            pool.close([s for e in batch if e.rejection for s in e.sessions()])
    finally:
        pool.close([session for evidence in wave for session in evidence.sessions()])


def _judge(evidence: Evidence, rules: Sequence) -> None:
    for rule in rules:
        if evidence.rejection is not None:
            return
        reason = rule(evidence)
        if reason is not None:
            evidence.rejection = (rule.__name__, reason)
            if rule is stages.isolation:
                evidence.shareable = False
