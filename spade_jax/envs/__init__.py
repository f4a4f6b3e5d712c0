from spade_jax.envs.world import SandboxWorld, Seat

__all__ = ["SandboxWorld", "Seat"]
