from spade_jax.sampler.engine import Engine
from spade_jax.sampler.handle import Handle, Turn
from spade_jax.sampler.request import (
    ContextError,
    EngineSettings,
    Request,
    SettingsError,
    Stats,
)

__all__ = [
    "ContextError",
    "Engine",
    "EngineSettings",
    "Handle",
    "Request",
    "SettingsError",
    "Stats",
    "Turn",
]
