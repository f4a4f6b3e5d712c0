"""What a run shows while it works: phases with their times, one line per step, closing tables."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import rich.progress
from rich.console import Console
from rich.table import Table

MOST_SHOWN = 6


class Progress:
    """A live bar on a terminal, one plain line per step elsewhere.

    Use it as a context manager: leaving it, by an interrupt too, gives the terminal back. Times
    are only shown and logged; no result may depend on them.
    """

    def __init__(
        self,
        total_steps: int,
        label: str = "step",
        start: int = 0,
        highlights: Mapping[str, str] | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        """Prepares the display; nothing is shown before it is entered.

        Args:
            label: what is counted, at the head of every line.
            start: steps already done, of a resumed run.
            highlights: metric name to the short name it is shown under; None shows the first
                `MOST_SHOWN` metrics by their own names.
            clock: returns seconds.
        """
        self._console = console or Console()
        self._total = total_steps
        self._label = label
        self._highlights = highlights
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._step_began = clock()
        self._bar: rich.progress.Progress | None = None
        if self._console.is_terminal:
            self._bar = rich.progress.Progress(
                rich.progress.TextColumn("{task.description}"),
                rich.progress.BarColumn(bar_width=24),
                rich.progress.MofNCompleteColumn(),
                rich.progress.TimeElapsedColumn(),
                rich.progress.TimeRemainingColumn(),
                rich.progress.TextColumn("{task.fields[highlights]}"),
                console=self._console,
            )
            self._task = self._bar.add_task(
                label, total=total_steps, completed=start, highlights=""
            )

    def __enter__(self) -> Self:
        self._step_began = self._clock()
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the seconds inside to `name`; an inner phase counts in the outer one as well."""
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self._label}: {name}")
        began = self._clock()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + self._clock() - began

    def times(self) -> dict[str, float]:
        """Seconds since the last `step` as `time/PHASE`, and `time/step` for the whole of it."""
        times = {f"time/{name}": seconds for name, seconds in self._seconds.items()}
        return {**times, "time/step": self._clock() - self._step_began}

    def step(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Shows that `step` steps are done, with a few of their numbers, and restarts the times."""
        seconds = self._clock() - self._step_began
        names = self._highlights
        if names is None:
            names = {name: name for name in list(metrics)[:MOST_SHOWN]}
        shown = "  ".join(
            f"{short} {format_value(metrics[name])}"
            for name, short in names.items()
            if name in metrics
        )
        line = f"{seconds:.1f} s{self._shares()}  {shown}".rstrip()
        if self._bar is not None:
            self._bar.update(self._task, completed=step, highlights=line)
        else:
            self.print(f"{self._label} {step}/{self._total}  {line}")
        self._seconds.clear()
        self._step_began = self._clock()

    def _shares(self) -> str:
        """The phases that took time worth naming: " (design 0.4, play 1.7)"."""
        spent = [f"{name} {s:.1f}" for name, s in self._seconds.items() if s >= 0.05]
        return f" ({', '.join(spent)})" if spent else ""

    def print(self, text: str) -> None:
        """A line of its own, above the bar; taken literally and never wrapped."""
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


def print_table(
    rows: Sequence[Mapping[str, Any]], title: str = "", console: Console | None = None
) -> None:
    """Prints rows under the union of their keys; a missing value is a dash."""
    table = Table(title=title or None, title_justify="left")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    for column in columns:
        numeric = not any(isinstance(row.get(column), str) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(format_value(row.get(column)) for column in columns))
    (console or Console()).print(table, markup=False)


def format_value(value: Any) -> str:
    """Three decimals for fractions, whole numbers as they are, a dash for None."""
    if value is None:
        return "-"
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, float):
        return str(value)
    if value != value or abs(value) == float("inf"):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"
