"""Warm-start rows as plain records: designs for the Designer's role, episodes for the Agent's."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spade_jax.envs.library.expert import ExpertEpisode, expert_episode
from spade_jax.envs.library.family import Family, SeedEnvironment
from spade_jax.envs.library.mixture import Mixture, draw_knob, near_knob
from spade_jax.envs.library.registry import GAMES, Domain


def _family_of(domain: Domain, skill: str, rng: np.random.Generator) -> Family:
    families = [family for family in domain.families.values() if family.skill == skill]
    return families[int(rng.integers(len(families)))]


def designs(
    count: int,
    rng: np.random.Generator,
    settings: Mixture | None = None,
    domain: Domain = GAMES,
) -> Iterator[tuple[SeedEnvironment, SeedEnvironment | None]]:
    """(design, memory example or None). Skills are equally frequent.

    A memory example is of the same skill, perhaps of its other family; the design's difficulty is
    then drawn near the example's, so that a Designer learns to start from what it is shown.
    """
    settings = settings or Mixture()
    skills = [s for s in domain.skills if any(f.skill == s for f in domain.families.values())]
    for index in range(count):
        skill = skills[index % len(skills)]
        family = _family_of(domain, skill, rng)
        if rng.random() >= settings.memory:
            yield family.sample(rng, settings=settings), None
            continue
        knob = draw_knob(rng, settings)
        memory = _family_of(domain, skill, rng).sample(rng, knob, settings)
        near = near_knob(rng, knob, settings.memory_spread)
        yield family.sample(rng, near, settings), memory


def episodes(
    environments: Sequence[SeedEnvironment],
    count: int,
    rng: np.random.Generator,
    settings: Mixture | None = None,
) -> Iterator[dict[str, Any]]:
    """Expert episodes as records, spread evenly over the environments."""
    settings = settings or Mixture()
    for index in range(count):
        env = environments[index * len(environments) // count]
        hinted = bool(rng.random() < settings.hinted_episodes)
        noise = settings.noise_with_hint if hinted else settings.noise_without_hint
        played = expert_episode(env, int(rng.integers(2**31)), hinted, noise, rng)
        yield episode_record(env, hinted, played)


def episode_record(env: SeedEnvironment, hinted: bool, played: ExpertEpisode) -> dict[str, Any]:
    """The JSON form of an expert's episode; tool use adds the schemas and the calls' results."""
    record = {
        "family": env.family,
        "skill": env.skill,
        "knob": env.knob,
        "with_hint": hinted,
        "hint": env.hint,
        "turns": [list(turn) for turn in played.turns],
        "return": played.final_return,
    }
    if played.tools:
        record |= {"tools": list(played.tools), "results": list(played.results)}
    return record


def design_record(env: SeedEnvironment, memory: SeedEnvironment | None) -> dict[str, Any]:
    """The JSON form of one pair of `designs`."""
    example = None
    if memory is not None:
        keys = ("family", "skill", "source", "knob", "hint")
        example = {key: getattr(memory, key) for key in keys}
    keys = ("family", "skill", "knob", "document", "source", "hint")
    return {key: getattr(env, key) for key in keys} | {"memory": example}
