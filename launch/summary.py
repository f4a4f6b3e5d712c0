"""What a launch shows at its end."""

import pathlib
from collections.abc import Mapping, Sequence

from rich.table import Table

from launch.jobs import Job, Record

SHOWN = {  # metric -> column; the last value that a run has written
    "agent/win_rate": "win",
    "designer/regret": "regret",
    "designer/in_band_fraction": "in band",
    "eval/dev/sampled/all": "dev",
}
TAIL = 2000  # characters of a failed job's log


def summary(jobs: Sequence[Job], records: Mapping[str, Record], folder: pathlib.Path) -> Table:
    """A row per job: its state, the steps it has done, its last metrics, its time and log."""
    table = Table(title=str(folder))
    for column in ("run", "state", "steps", *SHOWN.values(), "minutes", "starts", "log"):
        table.add_column(column, overflow="fold")
    for job in jobs:
        record, rows = records[job.name], _metrics(job)
        last = {key: value for row in rows for key, value in row.items() if value is not None}
        values = (f"{last[key]:.3f}" if key in last else "" for key in SHOWN)
        table.add_row(
            job.name, record.state, str(last.get("step", "")), *values,
            f"{record.seconds / 60:.1f}", str(record.starts), str(job.path(folder, ".log")),
        )  # fmt: skip
    return table


def log_tail(job: Job, folder: pathlib.Path) -> str:
    log = job.path(folder, ".log")
    return log.read_text(errors="replace")[-TAIL:] if log.exists() else ""


def _metrics(job: Job) -> list[dict]:
    """The rows that the job's run wrote here; none for a run elsewhere."""
    if job.workdir is None:
        return []
    from spade_jax.metrics import read_metrics  # not needed, and not loaded, before a run's end

    return read_metrics(job.workdir)
