"""Hostile programs, run for real beside healthy ones, and what became of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox_runner.pool import BlockingPool
from sandbox_runner.types import EnvError, Observation, Session, StepResult

STEPS = 3
_WAVE = 16  # hostile programs at once
_NEIGHBOURS = 4
_TURNS = 50
_ACTIONS = tuple(rf"\boxed{{{word}}}" for word in ("left", "right", "7"))
_HEALTHY = """
class WalkEnv:
    def __init__(self, max_turns=50):
        self.max_turns = max_turns
    def reset(self, seed=None):
        self.place, self.turn = random.Random(seed).randint(-9, 9), 0
        return f"You stand at {self.place}.", {}
    def step(self, action):
        self.turn += 1
        self.place += {"left": -1, "right": 1}.get(re.sub(r"\\W|boxed", "", action), 0)
        return f"Turn {self.turn}: {self.place}.", 0.1 * self.turn, False, False, {}
"""

# What a program was told, or how it ended -> the layer that was in its way. The first that fits.
_SIGNS = (
    (r"^parse: ", "parse"),
    (r"CPU time|slept for|no answer within|went on computing", "deadline"),
    (r"spoke out of turn", "protocol"),
    (r"the process (was ended|exited|ended|was killed)", "process"),
    (r"MiB|MemoryError", "limits"),
    (r"characters were printed|bytes, at most", "budget"),
    (r"must be|must return|not finite and in|lone surrogate", "contract"),
    (r"\[?Errno 1\]?\b|PermissionError 1\b|can't start new thread", "seccomp"),
    (r"\[?Errno 13\]?\b|PermissionError 13\b", "landlock"),
    (r"\[?Errno (2|30)\]?\b|FileNotFoundError|OSError 30\b", "private_root"),
    (r"\[?Errno 24\]?\b|OSError 24\b|RecursionError", "limits"),
    (r"PermissionError|Operation not permitted", "seccomp"),
    (r"ImportError|ModuleNotFoundError|no input to read", "program"),
    (r"OSError 9\b", "descriptors"),
    (r"refused: | raised ", "exception"),
)


@dataclass(frozen=True)
class Attack:
    """`started`: it was loaded and reset; `steps`: how many of `STEPS` it answered; `layer`: what
    stopped it, "none" when nothing had to; `outcome`: the error, or the last thing it said."""

    started: bool
    steps: int
    layer: str
    outcome: str


def run(pool: BlockingPool, sources: Sequence[str]) -> tuple[list[Attack], list[str]]:
    """What became of each program, and what happened to the healthy ones: nothing, one hopes."""
    attacks: list[Attack] = []
    harm: list[str] = []
    expected = _walk(pool)
    neighbours = pool.open([_HEALTHY] * _NEIGHBOURS, max_turns=_TURNS)
    for start in range(0, len(sources), _WAVE):
        attacks += _wave(pool, sources[start : start + _WAVE], neighbours, expected, harm)
    pool.close(neighbours)
    if _walk(pool) != expected:
        harm.append("a healthy program plays otherwise in a new process")
    return attacks, harm


def layer_of(outcome: str) -> str:
    """The layer that an outcome speaks of; "none" when nothing stood in the program's way."""
    return next((layer for sign, layer in _SIGNS if re.search(sign, outcome)), "none")


def _wave(
    pool: BlockingPool,
    sources: Sequence[str],
    neighbours: Sequence[Session],
    expected: list,
    harm: list[str],
) -> list[Attack]:
    """Two instances of each program in a process of its own; the second only has to be closed."""
    opened = pool.open([s for s in sources for _ in "12"], [True] * 2 * len(sources), _TURNS)
    firsts = opened[::2]
    seen: list[list] = [[result] for result in firsts]
    playing = [i for i, session in enumerate(firsts) if isinstance(session, Session)]
    turns = _turns(pool, neighbours, [firsts[i] for i in playing])
    for (hostile, healthy), wanted in zip(turns, expected, strict=True):
        for i, result in zip(playing, hostile, strict=True):
            seen[i].append(result)
        if healthy != wanted:
            harm.append(f"healthy neighbours answered {healthy} instead of {wanted}")
    for i, answer in zip(playing, pool.solution([firsts[i] for i in playing]), strict=True):
        if isinstance(answer, EnvError) and not isinstance(seen[i][-1], EnvError):
            seen[i].append(answer)
    pool.close([session for session in firsts if isinstance(session, Session)])
    pool.close([session for session in opened[1::2] if isinstance(session, Session)])
    return [_attack(results) for results in seen]


def _turns(
    pool: BlockingPool, neighbours: Sequence[Session], hostile: Sequence[Session]
) -> Iterator[tuple[list, list]]:
    """The answers of the hostile and of the healthy, which are always asked together."""
    everybody = [*hostile, *neighbours]
    results = pool.reset([(session, seed) for seed, session in enumerate(everybody, -len(hostile))])
    yield results[: len(hostile)], results[len(hostile) :]
    for action in _ACTIONS[:STEPS]:
        results = pool.step([(session, action) for session in everybody])
        yield results[: len(hostile)], results[len(hostile) :]


def _walk(pool: BlockingPool) -> list:
    """What the healthy programs answer when they are alone."""
    neighbours = pool.open([_HEALTHY] * _NEIGHBOURS, max_turns=_TURNS)
    answers = [healthy for _, healthy in _turns(pool, neighbours, [])]
    pool.close(neighbours)
    return answers


def _attack(results: list) -> Attack:
    steps = sum(isinstance(result, StepResult) for result in results)
    started = any(isinstance(result, Observation) for result in results)
    error = next((result for result in results if isinstance(result, EnvError)), None)
    outcome = results[-1].observation if error is None else str(error)
    layer = layer_of(outcome)
    if error is not None and layer == "none":
        layer = "exception"
    return Attack(started, steps, layer, " ".join(outcome.split())[:300])
