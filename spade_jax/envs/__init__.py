from spade_jax.envs.opening import HINT_STYLES, opening
from spade_jax.envs.plays import Player, PlayRequest, Program
from spade_jax.envs.world import SandboxWorld, Seat, answer

__all__ = [
    "HINT_STYLES",
    "PlayRequest",
    "Player",
    "Program",
    "SandboxWorld",
    "Seat",
    "answer",
    "opening",
]
