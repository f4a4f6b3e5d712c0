from spade_jax.models import cache
from spade_jax.models.cache import Cache, init_cache
from spade_jax.models.config import PRESETS, ModelConfig, ModelError, from_config, preset
from spade_jax.models.transformer import (
    Params,
    cast,
    hidden_cached,
    hidden_packed,
    init,
    logits,
    matrix_axes,
    num_params,
    unstack,
)

__all__ = [
    "PRESETS",
    "Cache",
    "ModelConfig",
    "ModelError",
    "Params",
    "cache",
    "cast",
    "from_config",
    "hidden_cached",
    "hidden_packed",
    "init",
    "init_cache",
    "logits",
    "matrix_axes",
    "num_params",
    "preset",
    "unstack",
]
