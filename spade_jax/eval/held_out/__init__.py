"""Held-out environments: `held_out("dev")` to choose by, `held_out("test")` to report only."""

from spade_jax.eval.held_out.suite import HeldOut, held_out

__all__ = ["HeldOut", "held_out"]
