"""Seed library: trusted procedural generators of environments, documents and expert play."""

from spade_jax.envs.library.expert import ExpertEpisode, expert_episode
from spade_jax.envs.library.family import Family, Mechanic, SeedEnvironment, knob_of, with_knob
from spade_jax.envs.library.generate import designs, episodes
from spade_jax.envs.library.idioms import idioms
from spade_jax.envs.library.mixture import Mixture, draw_knob, near_knob
from spade_jax.envs.library.registry import DOMAINS, GAMES, Domain

__all__ = [
    "DOMAINS",
    "GAMES",
    "Domain",
    "ExpertEpisode",
    "Family",
    "Mechanic",
    "Mixture",
    "SeedEnvironment",
    "designs",
    "draw_knob",
    "episodes",
    "expert_episode",
    "idioms",
    "knob_of",
    "near_knob",
    "with_knob",
]
