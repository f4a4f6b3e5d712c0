"""The backends on pods: what they render, and their scripts at work on a cloud that is not there.

`golden/BACKEND.txt` is what --dry_run prints; after a change that is meant, write it anew:
python -m tests.launch.test_pods
"""

import dataclasses
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from launch import bucket
from launch.backends import BACKENDS, tpu_vm
from launch.clusters import CLUSTERS, Cluster, parse_topology
from launch.errors import LaunchError
from launch.jobs import Limits, State, run_jobs
from launch.plan import Request
from launch.sweeps import Sweep
from launch.units import units

GOLDEN = Path(__file__).with_name("golden")
FAKE = Path(__file__).with_name("fake_cloud.sh")
SWEEP = Sweep("configs/tiny.py", {"no memory": {"memory.enabled": False}}, (3,))
CHANGES = {"curriculum.skills": "('a b', \"it's\")"}  # what a shell or YAML could take apart
BUCKET = "gs://my-bucket/alice/first"
PROGRAMS = (
    "gcloud", "kubectl", "docker", "curl", "gcsfuse", "umount", "apt-get", "lsb_release", "tee"
)
FULL = Cluster(
    topology="v5p:4x4x4", image="us-docker.pkg.dev/my-project/spade/spade:1",
    service_account="spade", spot=True, project="my-project", zone="us-east5-a",
    context="my-context", queue="tpus",
)  # fmt: skip
PLAIN = Cluster(
    topology="v5e:2x4", image="docker.io/someone/spade:1", project="my-project",
    zone="us-west4-a", context="my-context",
)  # fmt: skip


def request(folder, cluster=FULL, workdir=BUCKET, poll=60.0, failures=5):
    chosen = units(SWEEP, workdir, CHANGES)
    return Request(chosen, workdir, Path(folder), cluster, failures, parallel=1, poll=poll)


def shown(backend):
    plans = (BACKENDS[backend](request("folder", cluster)) for cluster in (FULL, PLAIN))
    return "".join(plan.shown() for plan in plans)


@pytest.mark.parametrize("backend", ["tpu_vm", "gke"])
def test_dry_run_shows_what_is_kept_in_golden(backend):
    assert shown(backend) == (GOLDEN / f"{backend}.txt").read_text()


def test_the_manifest_is_yaml_and_runs_the_command_on_every_host():
    yaml = pytest.importorskip("yaml")  # ml-collections brings it
    plan = BACKENDS["gke"](request("folder"))
    (text,) = (text for path, text in plan.files.items() if path.name == "jobset.yaml")
    spec = yaml.safe_load(text)["spec"]
    job = spec["replicatedJobs"][0]["template"]["spec"]
    pod = job["template"]["spec"]
    (unit,) = units(SWEEP, BUCKET, CHANGES)
    together = "--config.distributed.enabled=True"
    assert pod["containers"][0]["args"] == list(unit.command("python", together))
    assert (job["parallelism"], job["completions"], job["backoffLimit"]) == (16, 16, 0)
    assert pod["containers"][0]["resources"]["limits"] == {"google.com/tpu": 4}
    assert job["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [75]
    assert pod["restartPolicy"] == "Never"  # podFailurePolicy is refused without it


def test_the_manifest_mounts_the_bucket_where_the_run_writes():
    yaml = pytest.importorskip("yaml")
    plan = BACKENDS["gke"](request("folder"))
    (text,) = (text for path, text in plan.files.items() if path.name == "jobset.yaml")
    job = yaml.safe_load(text)["spec"]["replicatedJobs"][0]["template"]["spec"]
    template = job["template"]
    assert template["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
    (volume,), (container,) = template["spec"]["volumes"], template["spec"]["containers"]
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/gcs/my-bucket"}]
    assert "--workdir=/gcs/my-bucket/alice/first/seed_3/no_memory" in container["args"]
    assert volume["csi"]["volumeAttributes"] == {
        "bucketName": "my-bucket",
        "mountOptions": "metadata-cache-ttl-secs=0,metadata-cache-negative-ttl-secs=0,"
        "implicit-dirs,rename-dir-limit=200000",
    }


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """A folder that fakes a cloud, its programs first on PATH; buckets are mounted under it."""
    for program in PROGRAMS:
        path = tmp_path / "bin" / program
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/bash\nexec bash {FAKE} "${{0##*/}}" "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CLOUD", str(tmp_path))
    monkeypatch.setattr(bucket, "ROOT", str(tmp_path / "gcs"))
    (tmp_path / "calls").touch()
    monkeypatch.setattr(tpu_vm, "PAUSE", 0)
    return tmp_path


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))


def write(plan):
    for path, text in plan.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def launch(backend, cloud, *lives, **limits):
    """The run's record after its resource has lived those lives, and the verbs that made it so."""
    for number, life in enumerate(lives, start=1):
        write_lines(cloud / f"life_{number}", life)
    plan = BACKENDS[backend](request(cloud / "launch", poll=0.01))
    write(plan)
    records = run_jobs(plan.jobs, cloud / "launch", Limits(**limits))
    verbs = [
        verb
        for line in (cloud / "calls").read_text().splitlines()
        for verb in ("create", "delete", "apply")
        if f" {verb} " in line
    ]
    return records["seed_3/no_memory"], verbs


def test_a_slice_that_is_taken_away_is_asked_for_again_until_the_run_ends(cloud):
    record, verbs = launch(
        "tpu_vm", cloud,
        ["WAITING_FOR_RESOURCES", "ACTIVE", "SUSPENDING", "SUSPENDED"], ["ACTIVE", "exit 0"],
    )  # fmt: skip
    assert (record.state, record.starts) == (State.FINISHED, 2)
    assert verbs == ["create", "delete", "create", "delete"]


@pytest.mark.parametrize(
    "life", [["ACTIVE", "exit 1"], ["ACTIVE", "exit 2"], ["PROVISIONING", "FAILED"]]
)
def test_a_run_or_request_that_fails_is_not_tried_again_and_leaves_no_slice(life, cloud):
    record, verbs = launch("tpu_vm", cloud, life)
    assert (record.state, record.starts) == (State.FAILED, 1)
    assert verbs == ["create", "delete"]
    assert not (cloud / "resource").exists()


def test_a_watcher_that_comes_back_finds_its_slice_and_its_end(cloud):
    write_lines(cloud / "resource", ["ACTIVE", "ACTIVE", "exit 0"])
    record, verbs = launch("tpu_vm", cloud)
    assert (record.state, verbs) == (State.FINISHED, ["delete"])


def test_a_run_that_finished_unseen_gets_no_slice(cloud):
    (cloud / "exit_code").write_text("0\n")
    record, verbs = launch("tpu_vm", cloud)
    assert (record.state, verbs) == (State.FINISHED, [])


def test_the_exit_code_of_an_earlier_try_is_not_taken_for_this_one(cloud):
    (cloud / "exit_code").write_text("1\n")
    record, verbs = launch("tpu_vm", cloud, ["ACTIVE", "ACTIVE", "exit 0"])
    assert (record.state, verbs) == (State.FINISHED, ["create", "delete"])


@pytest.mark.parametrize(("code", "state"), [(0, State.FINISHED), (1, State.FAILED)])
def test_a_slice_that_can_not_be_seen_at_first_is_not_taken_for_absent(code, state, cloud):
    (cloud / "exit_code").write_text(f"{code}\n")
    write_lines(cloud / "resource", ["down", "ACTIVE"])
    record, verbs = launch("tpu_vm", cloud)
    assert (record.state, record.code, verbs) == (state, code, ["delete"])
    assert not (cloud / "resource").exists()


def test_a_slice_that_could_not_be_deleted_is_deleted_later(cloud):
    write_lines(cloud / "deletes", [1, 1, 0])
    record, verbs = launch("tpu_vm", cloud, ["ACTIVE", "exit 0"])
    assert (record.state, verbs) == (State.FINISHED, ["create", *["delete"] * 3])
    assert not (cloud / "resource").exists()


def test_a_run_has_not_finished_while_its_slice_is_paid_for(cloud):
    write_lines(cloud / "deletes", [1])
    record, _ = launch("tpu_vm", cloud, ["ACTIVE", "exit 0"])
    assert (record.state, record.code) == (State.FAILED, 1)
    assert "could not be deleted" in (cloud / "launch" / "seed_3_no_memory.log").read_text()
    write_lines(cloud / "deletes", [0])
    record, verbs = launch("tpu_vm", cloud)
    assert (record.state, verbs.count("create")) == (State.FINISHED, 1)
    assert not (cloud / "resource").exists()


def test_a_slice_that_somebody_deleted_needs_no_deleting(cloud):
    record, _ = launch("tpu_vm", cloud, ["ACTIVE", "gone 0"])
    assert record.state == State.FINISHED


@pytest.mark.parametrize("backend", ["tpu_vm", "gke"])
def test_what_is_no_longer_watched_is_said_to_run_on(backend, cloud, capsys):
    record, verbs = launch(backend, cloud, ["ACTIVE"], hours=0.5 / 3600)
    (unit,) = units(SWEEP, BUCKET, CHANGES)
    assert (record.state, record.code) == (State.FAILED, None)
    assert f"failed, no longer watched: {unit.resource} runs on\n" in capsys.readouterr().out
    assert "delete" not in verbs


def test_another_command_in_the_same_workdir_is_another_run(tmp_path):
    first = BACKENDS["tpu_vm"](request(tmp_path))
    other = dataclasses.replace(request(tmp_path), units=units(SWEEP, BUCKET, {"steps": 9}))
    second = BACKENDS["tpu_vm"](other)
    assert [*first.files] == [*second.files]  # one slice: two runs would write over each other
    assert first.jobs[0].command != second.jobs[0].command
    told = [re.search(r"exit_file=(.+)", text).group(1) for plan in (first, second)
            for path, text in plan.files.items() if path.name == "watch.sh"]  # fmt: skip
    assert len(set(told)) == 2


def test_a_slice_that_can_not_be_seen_is_left_as_it_is(cloud):
    record, verbs = launch("tpu_vm", cloud, ["ACTIVE", "down"])
    assert (record.state, verbs) == (State.FAILED, ["create"])
    assert "no connection" in (cloud / "launch" / "seed_3_no_memory.log").read_text()


@pytest.mark.parametrize(
    ("life", "state"),
    [
        (["", "", "Completed"], State.FINISHED),
        (["", "Failed"], State.FAILED),
        (["", "gone"], State.FAILED),
        (["", "down"], State.FAILED),
    ],
)
def test_a_jobset_is_watched_to_its_end(life, state, cloud):
    record, verbs = launch("gke", cloud, life)
    assert (record.state, record.starts, verbs) == (state, 1, ["apply"])


@pytest.mark.parametrize(("before", "verbs"), [("Failed", ["delete", "apply"]), ("", ["apply"])])
def test_a_jobset_that_failed_is_made_anew_and_a_running_one_watched(before, verbs, cloud):
    write_lines(cloud / "resource", [before, "Completed"])
    record, done = launch("gke", cloud, ["", "Completed"])
    assert (record.state, done) == (State.FINISHED, verbs)


def start_host(cloud, failures=2):
    """Runs the startup script to its end; what it has called."""
    plan = BACKENDS["tpu_vm"](request(cloud / "launch", failures=failures))
    write(plan)
    (script,) = (path for path in plan.files if path.name == "startup.sh")
    subprocess.run(["bash", str(script)], check=True, timeout=60, stdout=subprocess.DEVNULL)
    return (cloud / "calls").read_text().splitlines()


@pytest.mark.parametrize(
    ("codes", "starts", "told"),
    [([0], 1, "0"), ([1, 137, 0], 3, "0"), ([2], 1, "2"), ([75, 1, 1], 3, "1")],
)
def test_a_host_starts_a_failed_run_again_but_not_one_with_impossible_settings(
    codes, starts, told, cloud
):
    for worker in (0, 1):
        write_lines(cloud / "codes", codes)
        write_lines(cloud / "worker", [worker])
        calls = start_host(cloud)
        if worker == 0:
            runs = [line for line in calls if line.startswith("docker run")]
            assert len(runs) == starts
            (unit,) = units(SWEEP, BUCKET, CHANGES)
            command = " ".join(unit.command("python", "--config.distributed.enabled=True"))
            assert all(run.endswith(f"{FULL.image} {command}") for run in runs)
            assert (cloud / "exit_code").read_text() == f"{told}\n"
            (cloud / "exit_code").unlink()
    assert not (cloud / "exit_code").exists()  # only the first host tells


def test_a_host_mounts_the_bucket_before_the_run_and_unmounts_it_at_the_end(cloud):
    write_lines(cloud / "codes", [0])
    write_lines(cloud / "worker", [1])
    mount = cloud / "gcs" / "my-bucket"
    calls = [line.split() for line in start_host(cloud)]
    assert [call[:2] for call in calls if call[0] in ("docker", "gcsfuse", "umount")] == [
        ["docker", "rm"], ["umount", "--lazy"], ["gcsfuse", "--metadata-cache-ttl-secs=0"],
        ["docker", "image"], ["docker", "pull"], ["docker", "run"], ["umount", "--lazy"],
    ]  # fmt: skip
    (gcsfuse,) = (call for call in calls if call[0] == "gcsfuse")
    (docker,) = (call for call in calls if call[:2] == ["docker", "run"])
    assert gcsfuse[-2:] == ["my-bucket", str(mount)] and mount.is_dir()
    assert f"--volume={mount}:{mount}" in docker
    assert f"--workdir={mount}/alice/first/seed_3/no_memory" in docker


def count(calls, start):
    return sum(call.startswith(start) for call in calls)


@pytest.mark.parametrize("what", ["mounts", "pulls"])
def test_a_host_without_bucket_or_image_gives_up_without_having_started_a_run(
    what, cloud, monkeypatch
):
    monkeypatch.setattr(tpu_vm, "TRIES", 3)
    write_lines(cloud / what, [2, 1])  # 2 is no usage error here: it is gcsfuse's or docker's
    write_lines(cloud / "worker", [0])
    calls = start_host(cloud, failures=2)
    assert count(calls, "gcsfuse") == 3
    assert count(calls, "docker run") == 0
    assert (cloud / "exit_code").read_text() == "1\n"


def test_waiting_for_bucket_and_image_uses_up_no_restart(cloud):
    write_lines(cloud / "mounts", [1, 1, 1, 0])
    write_lines(cloud / "pulls", [1, 1, 0])
    write_lines(cloud / "codes", [1, 0])
    write_lines(cloud / "worker", [0])
    calls = start_host(cloud, failures=1)
    assert count(calls, "gcsfuse") == 3 + 2 + 2
    assert count(calls, "docker pull") == 3  # a restart takes the image that it has
    assert count(calls, "docker run") == 2
    assert (cloud / "exit_code").read_text() == "0\n"


@pytest.mark.parametrize("worker", [0, 1])
def test_a_host_that_boots_after_the_run_has_ended_does_not_run_it_again(worker, cloud):
    (cloud / "exit_code").write_text("0\n")
    write_lines(cloud / "codes", [1])
    write_lines(cloud / "worker", [worker])
    assert count(start_host(cloud), "docker") == 0
    assert (cloud / "exit_code").read_text() == "0\n"


def test_an_exit_code_that_could_not_be_told_is_told_again(cloud):
    write_lines(cloud / "uploads", [1, 1, 0])
    write_lines(cloud / "worker", [0])
    assert count(start_host(cloud), "gcloud storage cp") == 3
    assert (cloud / "exit_code").read_text() == "0\n"


def test_a_host_without_gcsfuse_installs_it(cloud):
    (cloud / "bin" / "gcsfuse").unlink()
    if shutil.which("gcsfuse"):
        pytest.skip("it is installed here")
    write_lines(cloud / "codes", [0])
    write_lines(cloud / "worker", [1])
    programs = [call.split()[0] for call in start_host(cloud)]
    assert programs.index("apt-get") < programs.index("gcsfuse")
    assert "docker" in programs[programs.index("gcsfuse") :]


@pytest.mark.parametrize(
    ("backend", "field"),
    [
        *(("tpu_vm", field) for field in ("topology", "project", "zone", "image")),
        *(("gke", field) for field in ("topology", "context", "image")),
    ],
)
def test_a_missing_field_is_named_before_anything_is_rendered(backend, field, tmp_path):
    cluster = dataclasses.replace(FULL, **{field: ""})
    with pytest.raises(LaunchError, match=rf"^{backend} also needs --{field} \([^()]+\)$"):
        BACKENDS[backend](request(tmp_path, cluster))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("backend", ["tpu_vm", "gke"])
@pytest.mark.parametrize(
    "workdir", ["runs/x", "/gcs/b/x", "gs://b", "gs://b/", "gs://b//x", "gs://B/x", "s3://b/x"]
)
def test_a_pod_writes_to_a_folder_in_a_bucket(backend, workdir, tmp_path):
    with pytest.raises(LaunchError, match="expected gs://BUCKET/FOLDER"):
        BACKENDS[backend](request(tmp_path, workdir=workdir))


@pytest.mark.parametrize(
    ("topology", "accelerator_type", "hosts"),
    [
        ("v4:2x2x1", "v4-8", 1),
        ("v5e:1x1", "v5litepod-1", 1),
        ("v5e:2x4", "v5litepod-8", 1),
        ("v5e:8x8", "v5litepod-64", 16),
        ("v5p:4x4x4", "v5p-128", 16),
        ("v6e:16x16", "v6e-256", 64),
    ],
)
def test_a_topology_has_its_name_and_hosts(topology, accelerator_type, hosts):
    slice_ = parse_topology(topology)
    assert (slice_.accelerator_type, slice_.hosts) == (accelerator_type, hosts)


@pytest.mark.parametrize("topology", ["", "v5p", "v5p:4x4", "v9:2x2", "v5e:0x4", "v5e:3x3"])
def test_an_impossible_topology_is_refused(topology):
    with pytest.raises(LaunchError, match="--topology="):
        parse_topology(topology)


def test_every_cluster_has_a_topology():
    assert all(parse_topology(cluster.topology).chips for cluster in CLUSTERS.values())


if __name__ == "__main__":
    for name in ("tpu_vm", "gke"):
        (GOLDEN / f"{name}.txt").write_text(shown(name))
