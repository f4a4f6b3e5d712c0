from spade_jax.warm_start.example import WarmStartError
from spade_jax.warm_start.fresh import fresh_language
from spade_jax.warm_start.prepare import WarmStart, prepare
from spade_jax.warm_start.stage import train

__all__ = ["WarmStart", "WarmStartError", "fresh_language", "prepare", "train"]
