"""Metrics as TensorBoard's event files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoard:
    """A metrics sink that writes to `folder`.

    Event files only grow: where steps are written again, the older events are marked as superseded.
    """

    def __init__(self, folder: str | Path):
        self._folder = Path(folder)
        self._events: Any = None

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        if self._events is None:
            from tensorboardX import SummaryWriter

            # File names hold whole seconds; the suffix keeps two of one second apart.
            suffix = f".{len(list(self._folder.glob('events.*')))}"
            self._events = SummaryWriter(
                str(self._folder), purge_step=step, filename_suffix=suffix
            )
        for name, value in numbers.items():
            self._events.add_scalar(name, value, step)
        self._events.flush()

    def close(self) -> None:
        """The next write begins a new file, which supersedes its step and later ones."""
        if self._events is not None:
            self._events.close()
            self._events = None

    rewind = close
