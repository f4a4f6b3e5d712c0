"""Packages that only some runs need, and that `pip install spade_jax` therefore leaves out."""

import importlib
from types import ModuleType


def require(module: str, extra: str, error: type[Exception]) -> ModuleType:
    """The module, imported.

    Raises:
        error: its package is not installed; the message names the extra that brings it. A package
            that is there but broken raises what it raises.
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as missing:
        if missing.name != package:
            raise
        raise error(
            f"the package {package} is not installed: pip install 'spade_jax[{extra}]'"
        ) from missing
    return importlib.import_module(module)
