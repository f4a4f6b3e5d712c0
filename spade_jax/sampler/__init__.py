from spade_jax.sampler.engine import ContextError, Engine, EngineSettings, Handle, Request, Turn

__all__ = ["ContextError", "Engine", "EngineSettings", "Handle", "Request", "Turn"]
