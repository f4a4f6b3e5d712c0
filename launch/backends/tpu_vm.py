"""Runs every unit on a Cloud TPU slice of its own, asked for as a queued resource.

The hosts run the container from their startup script, which starts it again where it fails. A slice
that is taken away can not come back: the script that watches it here deletes what is left and asks
for another one, so it must go on running as long as the sweep.
"""

import hashlib

from launch.backends.pods import host_command, watched
from launch.clusters import parse_topology
from launch.plan import Plan, Request

PAUSE = 30  # seconds before a failed run is started again: time for the other hosts to notice
TRIES = 40  # to mount the bucket and pull the image, or to tell the exit code; PAUSE between two


def plan(request: Request) -> Plan:
    cluster = request.cluster
    cluster.need("tpu_vm", "topology", "project", "zone", "image")
    request.need_bucket("tpu_vm")
    slice_ = parse_topology(cluster.topology)
    jobs, files = [], {}
    for unit in request.units:
        command = host_command(unit, slice_)
        digest = hashlib.sha256(repr(command).encode()).hexdigest()[:6]  # another command, anew
        job, rendered = watched(
            request, unit, command,
            {"watch.sh": "tpu_vm_watch.sh", "startup.sh": "tpu_vm_startup.sh"},
            project=cluster.project, zone=cluster.zone, network=cluster.network, spot=cluster.spot,
            accelerator_type=slice_.accelerator_type,
            runtime=cluster.runtime or slice_.generation.runtime,
            service_account=cluster.service_account,
            image=cluster.image, registry=cluster.image.partition("/")[0],
            startup="startup.sh", pause=PAUSE, tries=TRIES,
            exit_file=f"{unit.workdir}/exit_code_{digest}",
        )  # fmt: skip
        jobs.append(job)
        files |= rendered
    return Plan(jobs, files, programs=("bash", "gcloud"))
