"""python -m spade_jax.study --workdir=runs/study: what does training the designer add?

Runs the arms of `launch/sweeps.py: STUDY`, every seed's arms from one shared warm start, and prints
a table with intervals over seeds. Finished runs are kept: the same command goes on after Ctrl-C.
"""

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence

import msgspec
import numpy as np
import rich
import scipy.stats
from absl import app, flags
from rich.console import Console
from rich.table import Table

from launch.backends.local import local_jobs
from launch.errors import LaunchError
from launch.jobs import Job, Limits, State, run_jobs
from launch.summary import log_tail
from launch.sweeps import STUDY, Sweep
from launch.units import arm_name, units
from spade_jax.closing import window_mean
from spade_jax.metrics import read_metrics

WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the study.", required=True)
TEST = flags.DEFINE_bool("test", False, "Score the finished runs on the test set, once.")
STEPS = flags.DEFINE_integer("steps", None, "Iterations of each run.", lower_bound=1)
PARALLEL = flags.DEFINE_integer("max_parallel", None, "Runs at once; default: one per core.")

RUN_HOURS = 6.0  # that one run may take
LAST = 10  # iterations that the training columns average over

HELD_OUT = [
    (f"{mode} {group}", f"{mode}/{group}")
    for mode in ("sampled", "greedy")
    for group in ("all", "level_1", "level_2", "level_3", "level_4", "hard", "seen", "unseen")
]
TRAINING = [
    ("designs valid", "designer/valid_fraction"),
    ("regret", "designer/regret"),
    ("in band", "designer/in_band_fraction"),
    ("trivial", "designer/trivial_fraction"),
    ("hard", "designer/hard_fraction"),
    ("zero-variance groups", "agent/zero_variance_groups"),
    ("knob p10", "designer/knob_p10"),
    ("knob median", "designer/knob_median"),
    ("knob p90", "designer/knob_p90"),
    ("family entropy", "designer/family_entropy"),
    ("episodes an iteration", "agent/episodes"),
]


class StudyError(RuntimeError):
    """A run of the study failed or was stopped."""


def run_all(jobs: Sequence[Job], folder: pathlib.Path, parallel: int) -> None:
    """All jobs, at most `parallel` at once; finished ones are left alone.

    Raises:
        StudyError: one failed, was stopped or took too long; no further one was started then. The
            message holds its log's tail.
    """
    limits = Limits(parallel, hours=RUN_HOURS, keep_going=False)
    records = run_jobs(jobs, folder, limits)
    states = {job: records[job.name].state for job in jobs}
    for cause in (State.FAILED, State.PREEMPTED, State.STOPPED, State.WAITING):
        for job in (job for job in jobs if states[job] == cause):
            raise StudyError(f"{job.name} did not finish ({cause}):\n{log_tail(job, folder)}")


def jobs(sweep: Sweep, root: pathlib.Path, steps: int | None) -> list[Job]:
    """A warm start per seed, and every seed's arms after it."""
    changes = {"steps": steps} if steps else {}
    return local_jobs(units(sweep, str(root), changes))


def scoring_jobs(sweep: Sweep, root: pathlib.Path, steps: int | None) -> list[Job]:
    """The score of every arm on the test set."""
    more = ("--mode=eval", "--split=test")
    return [
        dataclasses.replace(job, name=f"{job.name}_test", command=(*job.command, *more), after=None)
        for job in jobs(sweep, root, steps)
        if job.after is not None
    ]


def arm_folder(root: pathlib.Path, arm: str, seed: int) -> pathlib.Path:
    return root / arm_name(arm, seed)


def interval(values: Sequence[float]) -> str:
    """Mean and 95% half-width (Student's t) over seeds."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return f"{mean:.3f}"
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:.3f} ±{scipy.stats.t.ppf(0.975, len(values) - 1) * error:.3f}"


def final_scores(folder: pathlib.Path, split: str) -> dict[str, float]:
    """The run's last held-out scores; those on "test" were written by `--mode=eval`."""
    if split == "test":
        return msgspec.json.decode((folder / "eval_test.json").read_bytes())
    return read_metrics(folder)[-1]


def table(sweep: Sweep, root: pathlib.Path, split: str) -> Table:
    """Rows are measures, columns the warm start and the arms. Held-out rows are followed by each
    arm's gain over its warm start and by the first arm's lead over it, both paired by seed."""
    folders = {arm: [arm_folder(root, arm, seed) for seed in sweep.seeds] for arm in sweep.arms}
    metrics = {arm: [read_metrics(folder) for folder in folders[arm]] for arm in folders}
    scores = {arm: [final_scores(folder, split) for folder in folders[arm]] for arm in folders}
    out = Table(title=f"held-out {split}, mean ±95% over {len(sweep.seeds)} seeds")
    for name in ("", "warm start", *sweep.arms):
        out.add_column(name)
    before = [rows[0] for rows in next(iter(metrics.values()))]
    for label, key in HELD_OUT:
        name = f"eval/{split}/{key}"
        values = {arm: np.array([score[name] for score in scores[arm]]) for arm in scores}
        first, *others = values
        cells, warm = map(interval, values.values()), ""
        if split == "dev":
            start = np.array([b[name] for b in before])
            warm = interval(start)
        out.add_row(label, warm, *cells)
        if split == "dev":
            gains = (interval(value - start) for value in values.values())
            out.add_row("  gain over its warm start", "", *gains)
        leads = (interval(values[first] - values[arm]) for arm in others)
        out.add_row(f"  lead of {first}", "", "", *leads)
    for label, key in TRAINING:
        cells = []
        for rows_of in metrics.values():
            found = [window_mean(rows[-LAST:], key) for rows in rows_of]
            cells.append(interval(found) if None not in found else "-")
        out.add_row(f"{label}, last {LAST}", "", *cells)
    return out


def run_study(root: pathlib.Path, steps: int | None, parallel: int, test: bool) -> None:
    """Every run of the study that has not finished; with `test` also its score, once."""
    stages = [jobs(STUDY, root, steps), *([scoring_jobs(STUDY, root, steps)] if test else [])]
    for stage in stages:
        run_all(stage, root / "launch", parallel)


def main(argv: list[str]) -> int:
    del argv
    root = pathlib.Path(WORKDIR.value)
    parallel = PARALLEL.value or len(os.sched_getaffinity(0))
    try:
        run_study(root, STEPS.value, parallel, TEST.value)
    except (StudyError, LaunchError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    split = "test" if TEST.value else "dev"
    result = table(STUDY, root, split)
    rich.print(result)
    with (root / f"table_{split}.txt").open("w") as file:
        Console(file=file, width=118).print(result)  # whatever the terminal's width
    print(root / f"table_{split}.txt")
    return 0


if __name__ == "__main__":
    app.run(main)
