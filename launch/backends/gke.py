"""Runs every unit as a JobSet on Google Kubernetes Engine, one TPU slice each.

The cluster starts preempted runs again by itself; the script that watches here only tells how they
end, and may be stopped and started again at any time.
"""

from launch.backends.pods import host_command, watched
from launch.clusters import parse_topology
from launch.plan import Plan, Request


def plan(request: Request) -> Plan:
    cluster = request.cluster
    cluster.need("gke", "topology", "context", "image")
    request.need_bucket("gke")
    slice_ = parse_topology(cluster.topology)
    jobs, files = [], {}
    for unit in request.units:
        job, rendered = watched(
            request, unit, host_command(unit, slice_),
            {"watch.sh": "gke_watch.sh", "jobset.yaml": "gke_jobset.yaml"},
            context=cluster.context, namespace=cluster.namespace, queue=cluster.queue,
            service_account=cluster.service_account, spot=cluster.spot,
            accelerator=slice_.generation.gke, shape=slice_.shape, hosts=slice_.hosts,
            chips_per_host=slice_.chips // slice_.hosts,
            image=cluster.image, manifest="jobset.yaml",
        )  # fmt: skip
        jobs.append(job)
        files |= rendered
    return Plan(jobs, files, programs=("bash", "kubectl"))
