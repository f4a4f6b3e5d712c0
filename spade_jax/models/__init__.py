from spade_jax.models import cache
from spade_jax.models.cache import Cache, init_cache
from spade_jax.models.config import (
    ATTENTION,
    EXPERTS,
    PRESETS,
    ModelConfig,
    ModelError,
    from_config,
    of_recipe,
    preset,
)
from spade_jax.models.kernels import REFERENCE, Kernels
from spade_jax.models.kernels import choose as choose_kernels
from spade_jax.models.transformer import (
    Params,
    cast,
    head,
    hidden_cached,
    hidden_packed,
    init,
    logits,
    matrix_axes,
    num_params,
    packed_forward,
    unstack,
)

__all__ = [
    "ATTENTION",
    "EXPERTS",
    "PRESETS",
    "REFERENCE",
    "Cache",
    "Kernels",
    "ModelConfig",
    "ModelError",
    "Params",
    "cache",
    "cast",
    "choose_kernels",
    "from_config",
    "head",
    "hidden_cached",
    "hidden_packed",
    "init",
    "init_cache",
    "logits",
    "matrix_axes",
    "num_params",
    "of_recipe",
    "packed_forward",
    "preset",
    "unstack",
]
