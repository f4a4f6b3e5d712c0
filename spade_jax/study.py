"""python -m spade_jax.study --workdir=runs/study: what does training the designer add?

Runs the arms of `launch/sweeps.py: STUDY`, every seed's arms from one shared warm start, and prints
a table with intervals over seeds. Finished runs are kept: the same command goes on after Ctrl-C.
"""

import concurrent.futures
import itertools
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import rich
from absl import app, flags
from rich.table import Table

from launch.sweeps import STUDY, Sweep
from spade_jax.closing import window_mean
from spade_jax.metrics import read_metrics

WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the study.", required=True)
SPLIT = flags.DEFINE_enum("split", "dev", ["dev", "test"], "Held-out set; test only to report.")
STEPS = flags.DEFINE_integer("steps", None, "Iterations of each run.", lower_bound=1)
PARALLEL = flags.DEFINE_integer("max_parallel", None, "Runs at once; default: one per core.")

# Student's t quantile 0.975 by degrees of freedom: 95% intervals of a mean over few seeds.
T_975 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
PIN = (
    "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
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
]


def command(sweep: Sweep, workdir: pathlib.Path, **overrides) -> list[str]:
    """The command line of one run."""
    changes = {**sweep.common, **overrides}
    return [
        sys.executable, "-m", "spade_jax.main", f"--config={sweep.config}", f"--workdir={workdir}",
        *(f"--config.{key}={value}" for key, value in changes.items()),
    ]  # fmt: skip


def execute(arguments: Sequence[str], log: pathlib.Path, core: int | None) -> None:
    """Runs one command to its end, its output in `log`, pinned to one core when several share.

    Raises:
        RuntimeError: it failed; the message holds the log's tail.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    pinned = list(arguments)
    if core is not None:
        pinned = [sys.executable, "-c", PIN, str(core), *arguments]
    with log.open("a") as out:
        done = subprocess.run(pinned, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{log.read_text()[-2000:]}")


def run_all(jobs: Sequence[tuple[list[str], pathlib.Path]], parallel: int) -> None:
    """All jobs, at most `parallel` at once; the first failure ends the study."""
    cores = sorted(os.sched_getaffinity(0))
    free = list(itertools.islice(itertools.cycle(cores), parallel))
    lock = threading.Lock()

    def one(job):
        with lock:
            core = free.pop()
        try:
            execute(*job, core if parallel > 1 else None)
        finally:
            with lock:
                free.append(core)

    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, job) for job in jobs]):
            done.result()


def arm_folder(root: pathlib.Path, arm: str, seed: int) -> pathlib.Path:
    return root / f"seed_{seed}" / arm.replace(" ", "_")


def warm_jobs(sweep: Sweep, root: pathlib.Path) -> Iterator[tuple[list[str], pathlib.Path]]:
    """One warm start per seed: a run that stops after it."""
    for seed in sweep.seeds:
        folder = root / f"seed_{seed}" / "warm"
        yield (
            command(sweep, folder, seed=seed) + ["--mode=warm_start"],
            root / "logs" / f"seed_{seed}_warm.log",
        )


def arm_jobs(
    sweep: Sweep, root: pathlib.Path, split: str, steps: int | None
) -> Iterator[tuple[list[str], pathlib.Path]]:
    for seed, (arm, overrides) in itertools.product(sweep.seeds, sweep.arms.items()):
        changes = {
            **overrides,
            **({"steps": steps} if steps else {}),
            "seed": seed,
            "eval.split": split,
            "warm_start.path": root / f"seed_{seed}" / "warm",
            "compilation_cache": root / "compilation_cache",
        }
        folder = arm_folder(root, arm, seed)
        yield command(sweep, folder, **changes), root / "logs" / f"{folder.name}_{seed}.log"


def interval(values: Sequence[float]) -> str:
    """Mean and 95% half-width over seeds."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return f"{mean:.3f}"
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:.3f} ±{T_975.get(len(values) - 1, 1.96) * error:.3f}"


def table(sweep: Sweep, root: pathlib.Path, split: str) -> Table:
    """Rows are measures, columns the warm start and the arms."""
    runs = {
        arm: [read_metrics(arm_folder(root, arm, seed)) for seed in sweep.seeds]
        for arm in sweep.arms
    }
    out = Table(title=f"held-out {split}, mean ± 95% over {len(sweep.seeds)} seeds")
    for name in ("", "warm start", *sweep.arms):
        out.add_column(name)
    first = next(iter(runs.values()))
    for label, key in HELD_OUT:
        name = f"eval/{split}/{key}"
        before = [rows[0][name] for rows in first]
        out.add_row(label, interval(before), *(
            interval([rows[-1][name] for rows in arm]) for arm in runs.values()
        ))
    for label, key in TRAINING:
        cells = []
        for arm in runs.values():
            values = [window_mean(rows[-LAST:], key) for rows in arm]
            found = [value for value in values if value is not None]
            cells.append(interval(found) if found else "-")
        out.add_row(f"{label}, last {LAST}", "", *cells)
    return out


def main(argv: list[str]) -> None:
    del argv
    root = pathlib.Path(WORKDIR.value)
    parallel = PARALLEL.value or len(os.sched_getaffinity(0))
    run_all(list(warm_jobs(STUDY, root)), parallel)
    run_all(list(arm_jobs(STUDY, root, SPLIT.value, STEPS.value)), parallel)
    result = table(STUDY, root, SPLIT.value)
    rich.print(result)
    with (root / "table.txt").open("w") as file:
        rich.print(result, file=file)
    print(root / "table.txt")


if __name__ == "__main__":
    app.run(main)
