from spade_jax.envs.plays import Player, PlayRequest, Program
from spade_jax.envs.world import SandboxWorld, Seat

__all__ = ["PlayRequest", "Player", "Program", "SandboxWorld", "Seat"]
