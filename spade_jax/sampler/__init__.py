from spade_jax.sampler.engine import Engine, Handle, Turn
from spade_jax.sampler.request import ContextError, EngineSettings, Request

__all__ = ["ContextError", "Engine", "EngineSettings", "Handle", "Request", "Turn"]
