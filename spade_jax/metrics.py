"""The one writer of metrics: a JSON object per step, and the same numbers for TensorBoard."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np

NON_FINITE = "metrics/non_finite"  # how many values of a step were NaN or infinite


class MetricsError(Exception):
    """A metrics file cannot be continued or read; the text names the file and the line."""


class MetricsWriter:
    """Appends to WORKDIR/metrics.jsonl and WORKDIR/tensorboard.

    A step is one line, written with one call and flushed, in strictly increasing order. A line
    that an earlier process left half-written is repaired on opening. One process writes.
    """

    def __init__(self, workdir: str | Path, name: str = "metrics", tensorboard: bool = True):
        """`name` separates streams that count their own steps: NAME.jsonl, tensorboard/NAME."""
        self._path = Path(workdir) / f"{name}.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        logs = Path(workdir) / "tensorboard"
        self._logs = (logs if name == "metrics" else logs / name) if tensorboard else None
        self._summaries: Any = None
        self._rewrite(_repaired(self._path))
        self._last = max((row["step"] for row in _read(self._path)), default=None)
        self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 (closed in `close`)

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes the line of `step`.

        Values are numbers, numpy scalars, bools, text or None; NaN and infinities become null and
        are counted under `metrics/non_finite`. Text and null do not reach TensorBoard. Raises
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
        while line:
            line = line[self._file.write(line):]
        self._last = int(step)
        self._summarise(row)

    def truncate_after(self, step: int) -> int:
        """Drops the lines of later steps, which a resumed run does again; returns how many.

        TensorBoard's files only grow: their later events are marked as superseded.
        """
        rows = _read(self._path)
        kept = [row for row in rows if row["step"] <= step]
        if len(kept) < len(rows):
            self._file.close()
            self._rewrite(b"".join(msgspec.json.encode(row) + b"\n" for row in kept))
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 (closed in `close`)
            self._last = max((row["step"] for row in kept), default=None)
            self._close_summaries()
        return len(rows) - len(kept)

    def close(self) -> None:
        """May be called twice."""
        self._file.close()
        self._close_summaries()

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

    def _summarise(self, row: Mapping[str, Any]) -> None:
        if self._logs is None:
            return
        step = row["step"]
        if self._summaries is None:
            from tensorboardX import SummaryWriter

            # File names hold whole seconds; the suffix keeps two of one second apart.
            suffix = f".{len(list(self._logs.glob('events.*')))}"
            self._summaries = SummaryWriter(
                str(self._logs), purge_step=step, filename_suffix=suffix
            )
        for key, value in row.items():
            if key != "step" and isinstance(value, (int, float)):
                self._summaries.add_scalar(key, value, step)
        self._summaries.flush()

    def _close_summaries(self) -> None:
        if self._summaries is not None:
            self._summaries.close()
            self._summaries = None


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


def read_metrics(workdir: str | Path, name: str = "metrics") -> list[dict[str, Any]]:
    """The rows in order of step, [] without a file; a half-written last line is left out.

    Raises MetricsError for any other line that is not an object with an integer `step`.
    """
    return _read(Path(workdir) / f"{name}.jsonl")


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
