"""What the backends on pods share: one slice per unit, and a script here that watches over it."""

import pathlib
from collections.abc import Mapping, Sequence

from launch.bucket import MOUNT_OPTIONS, bucket_name, mounted
from launch.clusters import Slice
from launch.jobs import PREEMPTED, Job
from launch.plan import Request
from launch.rendering import render
from launch.units import Unit

USAGE_ERROR = 2  # exit code of a run whose settings are impossible: starting it again is no use


def host_command(unit: Unit, slice_: Slice) -> tuple[str, ...]:
    """What every host of the slice runs. Together they are one run: on Cloud TPU each finds the
    others by itself."""
    together = ("--config.distributed.enabled=True",) if slice_.hosts > 1 else ()
    return unit.command("python", *together)


def watched(
    request: Request, unit: Unit, command: Sequence[str], templates: Mapping[str, str], **values
) -> tuple[Job, dict[pathlib.Path, str]]:
    """The job that runs `watch.sh` of the unit, and its rendered files.

    Args:
        command: what the hosts run. `watch.sh` gets it as arguments that it does not need: the
            job's record tells by them one run from another in the same workdir.
        templates: name of the file -> template, for "watch.sh" and what it reads.
    """
    folder = request.folder / unit.resource
    bucket = bucket_name(request.workdir)
    values |= {
        "bucket": bucket,
        "mount": mounted(f"gs://{bucket}"),
        "mount_options": MOUNT_OPTIONS,
        "name": unit.resource,
        "label": request.label,
        "command": command,
        "failures": request.failures,
        "poll": request.poll,
        "preempted": PREEMPTED,
        "usage_error": USAGE_ERROR,
    }
    files = {folder / name: render(template, **values) for name, template in templates.items()}
    watch = ("bash", str(folder / "watch.sh"), *command)
    return Job(unit.name, watch, unit.after, watches=unit.resource), files
