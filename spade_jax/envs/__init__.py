from spade_jax.envs.plays import Player, PlayRequest, PlaySettings, Program
from spade_jax.envs.world import SandboxWorld, Seat

__all__ = ["PlayRequest", "PlaySettings", "Player", "Program", "SandboxWorld", "Seat"]
