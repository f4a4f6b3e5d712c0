"""python -m spade_jax.study --workdir=runs/study: what does training the designer add?

Runs the arms of `launch/sweeps.py: STUDY`, every seed's arms from one shared warm start, and prints
a table with intervals over seeds. Finished runs are kept: the same command goes on after Ctrl-C.
"""

import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import rich
import scipy.stats
from absl import app, flags
from rich.console import Console
from rich.table import Table

from launch.sweeps import STUDY, Sweep
from spade_jax.closing import window_mean
from spade_jax.metrics import read_metrics

WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the study.", required=True)
TEST = flags.DEFINE_bool("test", False, "Score the finished runs on the test set, once.")
STEPS = flags.DEFINE_integer("steps", None, "Iterations of each run.", lower_bound=1)
PARALLEL = flags.DEFINE_integer("max_parallel", None, "Runs at once; default: one per core.")

RUN_WALL = 6 * 3600.0  # seconds that one run may take
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
    ("episodes an iteration", "agent/episodes"),
]


def command(sweep: Sweep, workdir: pathlib.Path, **overrides) -> list[str]:
    """The command line of one run."""
    changes = {**sweep.common, **overrides}
    return [
        sys.executable, "-m", "spade_jax.main", f"--config={sweep.config}", f"--workdir={workdir}",
        *(f"--config.{key}={value}" for key, value in changes.items()),
    ]  # fmt: skip


class StudyError(RuntimeError):
    """A run of the study failed or was stopped."""


def execute(arguments: Sequence[str], log: pathlib.Path, core: int | None) -> None:
    """Runs one command to its end, its output in `log`, pinned to one core when several share.

    Raises:
        StudyError: it failed, was stopped or took too long; the message holds the log's tail.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    pinned = list(arguments)
    if core is not None:
        pinned = [sys.executable, "-c", PIN, str(core), *arguments]
    with log.open("a") as out:
        try:
            done = subprocess.run(
                pinned, stdout=out, stderr=subprocess.STDOUT, check=False, timeout=RUN_WALL
            )
        except subprocess.TimeoutExpired as error:
            raise StudyError(f"{' '.join(arguments)} took over {RUN_WALL:.0f} s") from error
    tail = log.read_text()[-2000:]
    if done.returncode or "the same command goes on" in " ".join(tail.split()):
        raise StudyError(f"{' '.join(arguments)} did not finish:\n{tail}")


@dataclasses.dataclass(frozen=True)
class Job:
    """A command, the file for its output, and the earlier job that it must wait for."""

    command: Sequence[str]
    log: pathlib.Path
    after: "Job | None" = None


def run_all(jobs: Sequence[Job], parallel: int) -> None:
    """All jobs, at most `parallel` at once. The first failure, or Ctrl-C, starts no further one;
    those that run are waited for (Ctrl-C reaches them too: they save and stop)."""
    cores = sorted(os.sched_getaffinity(0))
    free = list(itertools.islice(itertools.cycle(cores), parallel))
    lock, failed = threading.Lock(), threading.Event()
    done = {job: threading.Event() for job in jobs}

    def one(job: Job) -> None:
        try:
            if job.after is not None:
                done[job.after].wait()
            if failed.is_set():
                return
            with lock:
                core = free.pop()
            try:
                execute(job.command, job.log, core if parallel > 1 else None)
            finally:
                with lock:
                    free.append(core)
        except BaseException:
            failed.set()  # here, not in the waiting thread, which may be slower than the next job
            raise
        finally:
            done[job].set()

    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        try:
            for ended in concurrent.futures.as_completed([pool.submit(one, job) for job in jobs]):
                ended.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def arm_folder(root: pathlib.Path, arm: str, seed: int) -> pathlib.Path:
    return root / f"seed_{seed}" / arm.replace(" ", "_")


def jobs(sweep: Sweep, root: pathlib.Path, steps: int | None) -> list[Job]:
    """A warm start per seed, and every seed's arms after it."""
    warm = {
        seed: Job(
            (*command(sweep, root / f"seed_{seed}" / "warm", seed=seed), "--mode=warm_start"),
            root / "logs" / f"seed_{seed}_warm.log",
        )
        for seed in sweep.seeds
    }
    return [*warm.values(), *arm_jobs(sweep, root, steps, warm)]


def arm_jobs(
    sweep: Sweep, root: pathlib.Path, steps: int | None, warm: Mapping[int, Job], *more: str
) -> list[Job]:
    """Every arm of every seed, each after its seed's job in `warm`; `more` are further flags."""
    found = []
    for seed, (arm, overrides) in itertools.product(sweep.seeds, sweep.arms.items()):
        changes = {
            **overrides,
            **({"steps": steps} if steps else {}),
            "seed": seed,
            "warm_start.path": root / f"seed_{seed}" / "warm",
            "compilation_cache": root / "compilation_cache",
        }
        folder = arm_folder(root, arm, seed)
        log = root / "logs" / f"{folder.name}_{seed}.log"
        found.append(Job((*command(sweep, folder, **changes), *more), log, warm.get(seed)))
    return found


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


def main(argv: list[str]) -> None:
    del argv
    root = pathlib.Path(WORKDIR.value)
    parallel = PARALLEL.value or len(os.sched_getaffinity(0))
    split = "test" if TEST.value else "dev"
    run_all(jobs(STUDY, root, STEPS.value), parallel)
    if TEST.value:
        run_all(arm_jobs(STUDY, root, STEPS.value, {}, "--mode=eval", "--split=test"), parallel)
    result = table(STUDY, root, split)
    rich.print(result)
    with (root / f"table_{split}.txt").open("w") as file:
        Console(file=file, width=118).print(result)  # whatever the terminal's width
    print(root / f"table_{split}.txt")


if __name__ == "__main__":
    app.run(main)
