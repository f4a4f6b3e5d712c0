"""python -m launch.run --sweep=NAME --backend=local|tpu_vm|gke|xm --workdir=FOLDER_OR_BUCKET

Runs every unit of a sweep (`launch/sweeps.py`), each with a workdir of its own under --workdir, and
prints a table at the end. The same command goes on after an interruption and skips what has
finished. --dry_run shows every file and command instead, and starts nothing. docs/tpu.md is the
walk to a pod.
"""

import dataclasses
import pathlib
import shutil
import sys

from absl import app, flags

from launch.backends import BACKENDS
from launch.clusters import CLUSTERS, Cluster
from launch.errors import LaunchError
from launch.jobs import Limits, State, run_jobs
from launch.plan import Plan, Request
from launch.summary import log_tail, summary
from launch.sweeps import SWEEPS, Sweep
from launch.units import check_settings, units

HERE = ("local", "xm")  # backends whose units share this machine

SWEEP = flags.DEFINE_enum("sweep", None, sorted(SWEEPS), "What to run.", required=True)
BACKEND = flags.DEFINE_enum("backend", "local", sorted(BACKENDS), "Where to run it.")
WORKDIR = flags.DEFINE_string("workdir", None, "Folder, or gs://BUCKET/FOLDER.", required=True)
DRY_RUN = flags.DEFINE_bool("dry_run", False, "Show every file and command; start nothing.")
PARALLEL = flags.DEFINE_integer(
    "max_parallel", None, "Units at once; default: 1 here, all of them on pods.", lower_bound=1
)
CONFIG = flags.DEFINE_string("config", None, "Recipe instead of the sweep's own.")
SIZE = flags.DEFINE_string("size", None, "Of the recipes: one of configs/sizes.py, as tiny.")
SET = flags.DEFINE_multi_string("set", [], "KEY=VALUE: a setting of every unit.")
FOLDER = flags.DEFINE_string(
    "folder", None, "Logs, records and rendered files here; default: WORKDIR/launch, for a bucket "
    "runs/launch/ and the workdir's last name."
)  # fmt: skip
PREEMPTIONS = flags.DEFINE_integer(
    "max_preemptions", 20, "How often a unit that was preempted is run again; gke: no limit.",
    lower_bound=0,
)  # fmt: skip
FAILURES = flags.DEFINE_integer(
    "max_failures", 5, "Pods: how often a unit that failed there is started again.", lower_bound=0
)
HOURS = flags.DEFINE_float(
    "max_hours", 168.0, "Most that one unit may take; pods: how long it is watched, it runs on.",
    lower_bound=0.0,
)  # fmt: skip
CLUSTER = flags.DEFINE_enum(
    "cluster", None, sorted(CLUSTERS), "Pods: a slice of launch/clusters.py; its fields are flags."
)
FIELDS = {
    field.name: (flags.DEFINE_bool if field.type is bool else flags.DEFINE_string)(
        field.name, None, field.metadata["help"]
    )
    for field in dataclasses.fields(Cluster)
}


def chosen_sweep() -> tuple[Sweep, dict[str, str]]:
    """The sweep with its recipe, and the settings given for every unit."""
    sweep = SWEEPS[SWEEP.value]
    if CONFIG.value:
        if sweep.recipes:
            raise LaunchError(f"--config: the arms of --sweep={SWEEP.value} have their own recipes")
        sweep = dataclasses.replace(sweep, config=CONFIG.value)
    if SIZE.value:
        sweep = sweep.sized(SIZE.value)
    changes = {}
    for pair in SET.value:
        key, equals, value = pair.partition("=")
        if not equals:
            raise LaunchError(f"--set={pair}: expected KEY=VALUE")
        changes[key] = value
    for arm, overrides in sweep.arms.items():
        check_settings(sweep.recipe(arm), (*sweep.common, *overrides, *changes))
    return sweep, changes


def chosen_cluster() -> Cluster:
    base = CLUSTERS[CLUSTER.value] if CLUSTER.value else Cluster()
    given = {name: flag.value for name, flag in FIELDS.items() if flag.value is not None}
    return dataclasses.replace(base, **given)


def chosen_folder() -> pathlib.Path:
    if FOLDER.value:
        return pathlib.Path(FOLDER.value)
    if "://" in WORKDIR.value:
        return pathlib.Path("runs/launch") / WORKDIR.value.rstrip("/").rpartition("/")[2]
    return pathlib.Path(WORKDIR.value) / "launch"


def execute(plan: Plan, folder: pathlib.Path, limits: Limits) -> int:
    """Exit code: 0 where every job has finished, 1 where one has not."""
    for program in plan.programs:
        if shutil.which(program) is None:
            raise LaunchError(f"--backend={BACKEND.value} needs the program {program}: not found")
    records = run_jobs(plan.jobs, folder, limits, files=plan.files)
    for job in plan.jobs:
        if records[job.name].state == State.FAILED:
            print(f"==> {job.path(folder, '.log')}\n{log_tail(job, folder)}")
    print(summary(plan.jobs, records, folder))
    return int(any(record.state != State.FINISHED for record in records.values()))


def main(argv: list[str]) -> int:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments {argv[1:]}; settings are --set=KEY=VALUE", 2)
    try:
        sweep, changes = chosen_sweep()
        chosen = units(sweep, WORKDIR.value, changes)
        parallel = PARALLEL.value or (1 if BACKEND.value in HERE else len(chosen))
        folder = chosen_folder()
        request = Request(
            chosen, WORKDIR.value, folder, chosen_cluster(), FAILURES.value, parallel
        )
        plan = BACKENDS[BACKEND.value](request)
        if DRY_RUN.value:
            print(plan.shown(), end="")
            return 0
        limits = Limits(parallel, PREEMPTIONS.value, HOURS.value)
        return execute(plan, folder, limits)
    except LaunchError as error:
        print(f"LaunchError: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    app.run(main)
