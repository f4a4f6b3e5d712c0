from spade_jax.warm_start.rows import WarmStartError
from spade_jax.warm_start.stage import WarmStart, prepare, train

__all__ = ["WarmStart", "WarmStartError", "prepare", "train"]
