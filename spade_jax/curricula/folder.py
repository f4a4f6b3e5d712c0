"""A folder of environments that were written in advance.

Each `NAME.py` is one; `NAME.hint`, or the "hint" of `NAME.json`, tells how to play it, the "levels"
of `NAME.json` how hard it can be (see `graded`), and its "skill" what it trains. The
`environments/` of a run is such a folder: what that run rejected is left out, unless it was only
not what had been asked for.
"""

import pathlib

import msgspec

from spade_jax.curricula.graded import Graded, GradedError, graded

SOUND = (None, "off_skill")  # stages of a run's record that say nothing against an environment

Rejections = dict[str, str]  # name -> "stage: reason"


class Record(msgspec.Struct):
    """What of `NAME.json` counts; a run writes more into it."""

    hint: str | None = None
    skill: str | None = None
    levels: list | None = None
    stage: str | None = None
    reason: str | None = None


class FolderError(ValueError):
    """A folder or a file in it can not be read; the message begins with what was expected."""


def read_file(path: pathlib.Path) -> Graded:
    """
    Raises:
        FolderError: it or what lies beside it is no text, or no JSON object of a `Record`.
        GradedError: see `graded`.
    """
    record = _record(path.with_suffix(".json"))
    hint = record.hint or ""
    if (beside := path.with_suffix(".hint")).is_file():
        hint = _text(beside).strip()
    return graded(path.stem, _text(path), record.levels, hint=hint, skill=record.skill or "")


def read_folder(folder: pathlib.Path) -> tuple[list[Graded], Rejections]:
    """Its environments in the order of their names, and those that can not be used.

    Raises:
        FolderError: it is no folder, or see `read_file`.
    """
    if not folder.is_dir():
        raise FolderError("expected a folder of environments")
    found, rejections = [], {}
    for path in sorted(folder.glob("*.py")):
        record = _record(path.with_suffix(".json"))
        if record.stage not in SOUND:
            rejections[path.stem] = f"{record.stage}: {record.reason or ''}"
            continue
        try:
            found.append(read_file(path))
        except GradedError as error:
            rejections[path.stem] = f"levels: {error}"
    return found, rejections


def _record(path: pathlib.Path) -> Record:
    if not path.is_file():
        return Record()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise FolderError(f"expected a JSON object in {path.name} ({error})") from error


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FolderError(f"expected UTF-8 text in {path.name} ({error})") from error
