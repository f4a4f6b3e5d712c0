"""The one writer of metrics: a JSON object per step, and the same numbers for other sinks."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
import numpy as np

FILE = "metrics.jsonl"
NON_FINITE = "metrics/non_finite"  # how many values of a step were NaN or infinite


class MetricsError(Exception):
    """A metrics file cannot be continued or read; the text names the file and the line."""


class Sink(Protocol):
    """A second place for the numbers of the steps."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Takes the finite numbers of a step. May not wait for a network."""

    def rewind(self) -> None:
        """The next step may be one that was written before."""

    def close(self) -> None:
        """May be called twice. Waits for anything outside with a deadline."""


class MetricsWriter:
    """Appends to WORKDIR/metrics.jsonl and hands every step to the sinks, which it closes.

    A step is one line, written with one call, in strictly increasing order. The file is closed
    after every step: in a mounted bucket only that makes it lasting, and visible to others. A line
    that an earlier process left half-written is repaired on opening. One process writes.
    """

    def __init__(self, workdir: str | Path, sinks: Sequence[Sink] = ()):
        self._path = Path(workdir) / FILE
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._sinks = tuple(sinks)
        self._rewrite(_repaired(self._path))
        self._last = max((row["step"] for row in _read(self._path)), default=None)

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes the line of `step`.

        Values are numbers, numpy scalars, bools, text or None; NaN and infinities become null and
        are counted under `metrics/non_finite`. Text and null do not reach the sinks. Raises
        MetricsError for a step that is not past the last one and TypeError for other values.
        """
        if self._last is not None and step <= self._last:
            raise MetricsError(f"{self._path}: step {step} after step {self._last}; a resumed run "
                               "calls truncate_after first")
        row: dict[str, Any] = {"step": int(step)}
        lost = 0
        for key, value in values.items():
            row[key] = _plain(key, value)
            lost += row[key] is None and value is not None
        if lost:
            row[NON_FINITE] = lost
        line = memoryview(msgspec.json.encode(row) + b"\n")
        with open(self._path, "ab", buffering=0) as file:
            while line:
                line = line[file.write(line):]
        self._last = row.pop("step")
        numbers = {name: value for name, value in row.items() if isinstance(value, (int, float))}
        for sink in self._sinks:
            sink.write(self._last, numbers)

    def truncate_after(self, step: int) -> int:
        """Drops the lines of later steps, which a resumed run does again; returns how many."""
        rows = _read(self._path)
        kept = [row for row in rows if row["step"] <= step]
        if len(kept) < len(rows):
            self._rewrite(b"".join(msgspec.json.encode(row) + b"\n" for row in kept))
            self._last = max((row["step"] for row in kept), default=None)
            for sink in self._sinks:
                sink.rewind()
        return len(rows) - len(kept)

    def close(self) -> None:
        """May be called twice."""
        for sink in self._sinks:
            sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def _rewrite(self, content: bytes | None) -> None:
        """Replaces the file as a whole; None leaves it as it is."""
        if content is None:
            return
        temporary = self._path.with_suffix(".jsonl.new")
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)


class NoWriter:
    """In the place of a `MetricsWriter` where another process writes."""

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        pass

    def truncate_after(self, step: int) -> int:
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        pass


def read_metrics(workdir: str | Path) -> list[dict[str, Any]]:
    """The rows in order of step, [] without a file; a half-written last line is left out.

    Raises MetricsError for any other line that is not an object with an integer `step`.
    """
    return _read(Path(workdir) / FILE)


def _plain(key: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError(f"metric {key!r}: expected a scalar, got an array of shape {value.shape}")
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"metric {key!r}: expected a number or text, got {type(value).__name__}")
    return value if math.isfinite(value) else None


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    rows = []
    for number, line in enumerate(lines, start=1):
        row = _row(line)
        if row is not None:
            rows.append(row)
        elif number < len(lines) or line.endswith(b"\n"):
            raise MetricsError(f"{path}, line {number}: expected a JSON object with a step, got "
                               f"{line[:80]!r}")
    return rows


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    return row if isinstance(row.get("step"), int) else None


def _repaired(path: Path) -> bytes | None:
    """The content with a torn last line completed or dropped; None where nothing is torn."""
    content = path.read_bytes() if path.exists() else b""
    if not content or content.endswith(b"\n"):
        return None
    start = content.rfind(b"\n") + 1
    return content + b"\n" if _row(content[start:]) is not None else content[:start]
