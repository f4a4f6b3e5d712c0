from spade_jax.remote.client import FIELDS, Question, RemoteModel, RemoteSettings, Reply
from spade_jax.remote.errors import RemoteError, RemoteSetupError
from spade_jax.remote.use import Prices, Use, use_metrics

__all__ = [
    "FIELDS",
    "Prices",
    "Question",
    "RemoteError",
    "RemoteModel",
    "RemoteSettings",
    "RemoteSetupError",
    "Reply",
    "Use",
    "use_metrics",
]
