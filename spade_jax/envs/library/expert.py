"""Near-optimal play of library environments, for the supervised warm start.

This module EXECUTES the library's own sources in its own process. It belongs to the generator
process (`python -m spade_jax.envs.library`) and to tests; a trainer never imports it to play, and a
source that a model wrote never comes here.
"""

import dataclasses
import functools
from typing import Any

import numpy as np

from spade_jax.envs.library.family import Family, SeedEnvironment
from spade_jax.envs.library.registry import FAMILIES

TURN_CAP = 12


@dataclasses.dataclass(frozen=True)
class ExpertEpisode:
    """(observation, action inside the box) by turn; the return is in [-1, 1], 0 if truncated."""

    turns: tuple[tuple[str, str], ...]
    final_return: float


@functools.lru_cache(maxsize=1024)
def environment_class(source: str) -> Any:
    """The one class of a library source that ends in Env. Only for sources that we rendered."""
    namespace: dict[str, object] = {}
    exec(compile(source, "<library>", "exec"), namespace)
    return next(value for name, value in namespace.items() if name.endswith("Env"))


def expert_episode(
    env: SeedEnvironment,
    seed: int,
    with_hint: bool,
    noise: float,
    rng: np.random.Generator,
    family: Family | None = None,
) -> ExpertEpisode:
    """Play one episode from observations alone, plus the mechanic when the hint states it.

    Without the hint, or with a vague one, the mechanic is inferred from the feedback. `noise` is
    the chance of a careless action at a turn. `family` is for environments of no training family.
    """
    family = family or FAMILIES[env.family]
    knows = with_hint and not env.vague
    mechanic = family.effective(env.mechanic, env.knob)
    game = environment_class(env.source)()
    observation, _ = game.reset(seed)
    turns: list[tuple[str, str]] = []
    for _ in range(TURN_CAP):
        if rng.random() < noise:
            action = family.careless(turns, observation, rng)
        elif knows:
            action = family.ideal(turns, observation, mechanic)
        else:
            action = family.infer(turns, observation, rng)
        turns.append((observation, action))
        observation, reward, terminated, truncated, _ = game.step(rf"\boxed{{{action}}}")
        if terminated or truncated:
            return ExpertEpisode(tuple(turns), max(-1.0, min(1.0, reward)) if terminated else 0.0)
    return ExpertEpisode(tuple(turns), 0.0)
