"""What a launch shows at its end."""

import pathlib
from collections.abc import Mapping, Sequence

from launch.jobs import Job, Record

SHOWN = {  # metric -> column; the last value that a run has written
    "designer/valid_fraction": "valid",
    "agent/win_rate": "win",
    "designer/regret": "regret",
    "designer/in_band_fraction": "in band",
    "eval/dev/sampled/all": "dev",
}
TAIL = 2000  # characters of a failed job's log


def summary(jobs: Sequence[Job], records: Mapping[str, Record], folder: pathlib.Path) -> str:
    """A line per job: its state, the steps it has done, its last metrics, its time and log."""
    rows = [("run", "state", "steps", *SHOWN.values(), "minutes", "starts", "log")]
    for job in jobs:
        record = records[job.name]
        last = {k: v for row in _metrics(job) for k, v in row.items() if v is not None}
        values = (f"{last[key]:.3f}" if key in last else "-" for key in SHOWN)
        rows.append((
            job.name, str(record.state), str(last.get("step", "-")), *values,
            f"{record.seconds / 60:.1f}", str(record.starts), str(job.path(folder, ".log")),
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def log_tail(job: Job, folder: pathlib.Path) -> str:
    log = job.path(folder, ".log")
    return log.read_text(errors="replace")[-TAIL:] if log.exists() else ""


def _metrics(job: Job) -> list[dict]:
    """The rows that the job's run wrote here; none for a run elsewhere."""
    if job.workdir is None:
        return []
    from spade_jax.metrics import read_metrics  # loads numpy, which --dry_run can do without

    return read_metrics(job.workdir)
