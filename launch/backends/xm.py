"""Runs every unit here as a work unit of one XManager experiment, which keeps them in its database.

XManager's executors know no present TPU, and its local one neither restarts a run nor caps how many
are at work: `launch/xm_experiment.py`, the program that is the experiment, does the latter.
"""

import json
import sys

from launch.errors import LaunchError
from launch.jobs import Job
from launch.plan import Plan, Request
from spade_jax.extras import require


def plan(request: Request) -> Plan:
    request.need_folder("xm")
    require("xmanager", "xm", LaunchError)
    path = request.folder / "experiment.json"
    experiment = {
        "title": request.label,
        "parallel": request.parallel,
        "units": [
            {"name": unit.name, "command": unit.command(sys.executable), "after": unit.after}
            for unit in request.units
        ],
    }
    job = Job("experiment", (sys.executable, "-m", "launch.xm_experiment", str(path)))
    return Plan([job], {path: json.dumps(experiment, indent=1) + "\n"})
