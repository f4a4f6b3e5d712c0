"""google-tunix 0.1.7 beside this project: an environment of its own, and whose turn it is."""

import argparse
import contextlib
import json
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

from benchmarks.worker import Worker

REQUIREMENTS = Path(__file__).with_name("tunix.txt")


class UnequalError(Exception):
    """The two do not do the same work, so that their times cannot be compared."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `opened` and `keep` read."""
    parser.add_argument("--alone", action="store_true", help="our side only")
    parser.add_argument("--tunix-python", type=Path, help="an interpreter that imports tunix")
    cache = Path.home() / ".cache" / "spade_jax"
    parser.add_argument("--cache", type=Path, default=cache, help="where environments are made")
    parser.add_argument("--json", type=Path, help="a file for all numbers")


@contextlib.contextmanager
def opened(
    options: argparse.Namespace, server: str, ours: str, theirs: str
) -> Iterator[tuple[Worker, Worker | None, dict]]:
    """Our worker, tunix's unless `--alone`, and what they say about themselves.

    Raises:
        UnequalError: they run on different devices.
    """
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(Worker.of(server, ours))
        about, tunix = own.ask("about"), None
        if not options.alone:
            interpreter = options.tunix_python or python(options.cache)
            tunix = stack.enter_context(Worker.of(server, theirs, str(interpreter)))
            if (other := tunix.ask("about"))["device"] != about["device"]:
                raise UnequalError(f"ours runs on {about['device']}, tunix on {other['device']}")
            about["tunix_jax"] = other["jax"]
        yield own, tunix, about


def alternated(ours: Worker, tunix: Worker | None, rounds: int) -> Iterator[tuple[int, Worker]]:
    """`rounds` and one to compile, each of both in an order that swaps every time."""
    workers = [worker for worker in (ours, tunix) if worker]
    for number in range(rounds + 1):
        for worker in workers[:: 1 if number % 2 else -1]:
            yield number, worker


def keep(path: Path | None, result: dict) -> None:
    if path:
        path.write_text(json.dumps(result, indent=1))


def python(cache: Path) -> Path:
    """The interpreter of an environment with tunix, made anew when its requirements changed."""
    folder, wanted = cache / "tunix", REQUIREMENTS.read_text()
    found, stamp = folder / "bin" / "python", folder / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making an environment for tunix in {folder}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        install = [found, "-m", "pip", "install", "--quiet", "--no-deps", "-r", REQUIREMENTS]
        subprocess.run(install, check=True)
        stamp.write_text(wanted)
    return found
