"""`jsonl:PATH`: one JSON object per line, plain or gzip, a file or a glob of files."""

import glob
import gzip
import zlib
from array import array
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from absl import logging

from spade_jax.grounding.corpus import CorpusError, Document, checked_index

TEXT_KEYS = ("text", "orig_doc")


class JsonlCorpus:
    """Documents of JSON Lines files, in the order of the lines.

    Opening parses every line once and keeps 16 bytes per document; the text of plain files stays
    on disk, that of gzip files is held in memory. A line without a usable text is left out and
    counted by reason in `skipped`; blank lines are no lines.
    """

    def __init__(self, paths: list[Path]):
        """Raises CorpusError when a file cannot be read or no line of any file is usable."""
        self.skipped: Counter[str] = Counter()
        self._files = [self._open(path) for path in paths]
        self._ends: list[int] = []
        for file in self._files:
            self._ends.append(len(file.numbers) + (self._ends[-1] if self._ends else 0))
        names = ", ".join(str(path) for path in paths[:3]) + (", ..." if len(paths) > 3 else "")
        if self.skipped:
            reasons = ", ".join(f"{count} {why}" for why, count in sorted(self.skipped.items()))
            logging.warning("%s: lines left out: %s", names, reasons)
        if not len(self):
            raise CorpusError(
                f"{names}: no document in {sum(self.skipped.values())} lines; expected one JSON "
                f"object per line with a non-empty string under {' or '.join(TEXT_KEYS)}"
            )

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Document:
        index = checked_index(index, len(self))
        which = bisect_right(self._ends, index)
        file = self._files[which]
        local = index - (self._ends[which - 1] if which else 0)
        parsed = _parse(file.line(local))
        if isinstance(parsed, str):
            raise CorpusError(f"{file.path} changed while it was open: line "
                              f"{file.numbers[local]} is now {parsed}")
        text, metadata = parsed
        name = metadata.pop("id", None)
        if not isinstance(name, (str, int)):
            name = f"{file.path.name}:{file.numbers[local]}"
        return Document(id=str(name), text=text, metadata=metadata)

    def _open(self, path: Path) -> "_PlainFile | _GzipFile":
        file = _GzipFile(path) if path.suffix == ".gz" else _PlainFile(path)
        try:
            with file.reader() as lines:
                offset = 0
                for number, line in enumerate(lines, start=1):
                    parsed = _parse(line) if line.strip() else None
                    if isinstance(parsed, str):
                        self.skipped[parsed] += 1
                    elif parsed is not None:
                        file.add(number, offset, line)
                    offset += len(line)
        except (OSError, EOFError, zlib.error) as error:
            raise CorpusError(f"cannot read {path}: {error}") from error
        return file


class _PlainFile:
    def __init__(self, path: Path):
        self.path = path
        self.numbers = array("Q")
        self._offsets = array("Q")

    def reader(self) -> Any:
        return open(self.path, "rb")

    def add(self, number: int, offset: int, line: bytes) -> None:
        del line
        self.numbers.append(number)
        self._offsets.append(offset)

    def line(self, index: int) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(self._offsets[index])
            return file.readline()


class _GzipFile:
    def __init__(self, path: Path):
        self.path = path
        self.numbers = array("Q")
        self._lines: list[bytes] = []

    def reader(self) -> Any:
        return gzip.open(self.path, "rb")

    def add(self, number: int, offset: int, line: bytes) -> None:
        del offset
        self.numbers.append(number)
        self._lines.append(line)

    def line(self, index: int) -> bytes:
        return self._lines[index]


def _parse(line: bytes) -> tuple[str, dict[str, Any]] | str:
    """The text and the other keys of a line, or the reason why it holds no document."""
    try:
        row = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "not a JSON object"
    for key in TEXT_KEYS:
        text = row.get(key)
        if isinstance(text, str) and text.strip():
            return text, {name: value for name, value in row.items() if name not in TEXT_KEYS}
    return "without text"


def open_source(argument: str, base_dir: Path) -> JsonlCorpus:
    """`argument` is a path or a glob, relative to `base_dir`; files are read in sorted order."""
    if not argument:
        raise CorpusError("jsonl: expected jsonl:PATH")
    pattern = base_dir / argument
    if pattern.is_file():
        return JsonlCorpus([pattern])
    paths = sorted(Path(path) for path in glob.glob(str(pattern), recursive=True))
    if not paths:
        raise CorpusError(f"jsonl: no file at {pattern}")
    return JsonlCorpus(paths)
