"""Where metrics go besides metrics.jsonl."""

from spade_jax.sinks.tensorboard import TensorBoard
from spade_jax.sinks.wandb_run import WandbError, WandbRun

__all__ = ["TensorBoard", "WandbError", "WandbRun"]
