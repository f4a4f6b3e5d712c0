from spade_jax.remote.answers import Reply
from spade_jax.remote.client import FIELDS, Question, RemoteModel, RemoteSettings
from spade_jax.remote.engine import RemoteEngine
from spade_jax.remote.errors import RemoteError, RemoteSetupError
from spade_jax.remote.opening import open_remote, users
from spade_jax.remote.use import Prices, Use, use_metrics

__all__ = [
    "FIELDS",
    "Prices",
    "Question",
    "RemoteEngine",
    "RemoteError",
    "RemoteModel",
    "RemoteSettings",
    "RemoteSetupError",
    "Reply",
    "Use",
    "open_remote",
    "use_metrics",
    "users",
]
