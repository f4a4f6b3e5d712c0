"""From a run's settings to its server."""

import contextlib

from ml_collections import ConfigDict

from spade_jax.remote.client import RemoteModel, RemoteSettings
from spade_jax.remote.use import Prices


def users(config: ConfigDict) -> list[str]:
    """The settings because of which a run needs a server, as they are written."""
    found = []
    if config.hints.source == "external":
        found.append("hints.source='external'")
    if config.audit.enabled and config.audit.source == "external":
        found.append("audit.source='external'")
    if config.yardstick.enabled:
        found.append("yardstick.enabled=True")
    return found


def open_remote(config: ConfigDict) -> contextlib.AbstractContextManager[RemoteModel | None]:
    """The server's model, where the recipe needs one.

    Raises:
        RemoteSetupError: see `RemoteModel`.
    """
    if not users(config):
        return contextlib.nullcontext()
    section = dict(config.remote)
    prices = Prices(section.pop("price_prompt"), section.pop("price_completion"))
    section["fields"] = tuple(section["fields"])
    return RemoteModel(RemoteSettings(**section, prices=prices))
