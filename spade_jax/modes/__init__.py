"""What `spade_jax.main --mode` runs."""

import pathlib
from collections.abc import Callable

from ml_collections import ConfigDict

from spade_jax.modes.explaining import run_explain
from spade_jax.modes.inspecting import run_eval, run_generate, run_play
from spade_jax.modes.opening import ModeError, Options
from spade_jax.modes.training import run_training, run_warm_start

MODES: dict[str, Callable[[ConfigDict, pathlib.Path, Options], int]] = {
    "train": run_training,
    "warm_start": run_warm_start,
    "eval": run_eval,
    "generate": run_generate,
    "play": run_play,
}

__all__ = [
    "MODES",
    "ModeError",
    "Options",
    "run_eval",
    "run_explain",
    "run_generate",
    "run_play",
    "run_training",
    "run_warm_start",
]
