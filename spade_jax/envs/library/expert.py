"""Near-optimal play of library environments, for the supervised warm start.

This module EXECUTES the library's own sources in its own process. It belongs to the generator
process (`python -m spade_jax.envs.library`) and to tests; a trainer never imports it to play, and a
source that a model wrote never comes here.
"""

import dataclasses
import functools
from typing import Any

import numpy as np

from sandbox_runner.tool_use import MultiTurnToolUseEnv, ToolUseEnv
from spade_jax.envs.library.family import Family, SeedEnvironment
from spade_jax.envs.library.registry import family_named

TURN_CAP = 12


@dataclasses.dataclass(frozen=True)
class ExpertEpisode:
    """Attributes:
    turns: (observation, action), as the family understands them.
    final_return: in [-1, 1], 0 if truncated.
    results: of each turn whose observation is what tool calls gave, one text a call; else None.
    tools: the schemas that a tool-use environment declares.
    """

    turns: tuple[tuple[str, str], ...]
    final_return: float
    results: tuple[tuple[str, ...] | None, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()


@functools.lru_cache(maxsize=1024)
def environment_class(source: str) -> Any:
    """The one class of a library source that ends in Env. Only for sources that we rendered."""
    bases = {base.__name__: base for base in (ToolUseEnv, MultiTurnToolUseEnv)}
    namespace: dict[str, object] = dict(bases)
    exec(compile(source, "<library>", "exec"), namespace)
    names = [name for name in namespace if name.endswith("Env") and name not in bases]
    return namespace[names[0]]


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
    family = family or family_named(env.family)
    knows = with_hint and not env.vague
    mechanic = family.effective(env.mechanic, env.knob)
    game = environment_class(env.source)()
    observation, _ = game.reset(seed)
    tools = tuple(game.get_tools()) if family.domain == "tool_use" else ()
    turns: list[tuple[str, str]] = []
    results: list[tuple[str, ...] | None] = [None]

    def episode(final_return: float) -> ExpertEpisode:
        return ExpertEpisode(tuple(turns), final_return, tuple(results[: len(turns)]), tools)

    for _ in range(TURN_CAP):
        if rng.random() < noise:
            action = family.careless(turns, observation, rng)
        elif knows:
            action = family.ideal(turns, observation, mechanic)
        else:
            action = family.infer(turns, observation, rng)
        turns.append((observation, action))
        observation, reward, terminated, truncated, info = game.step(family.spoken(action))
        found = info.get("tool_results")
        results.append(None if found is None else tuple(found))
        if terminated or truncated:
            return episode(max(-1.0, min(1.0, reward)) if terminated else 0.0)
    return episode(0.0)
