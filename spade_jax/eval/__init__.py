from spade_jax.eval.held_out import HeldOut, held_out
from spade_jax.eval.runner import evaluate

__all__ = ["HeldOut", "evaluate", "held_out"]
