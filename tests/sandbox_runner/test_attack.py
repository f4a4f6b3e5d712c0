"""Hostile programs beside healthy ones, on every kind of host that this machine can play."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from sandbox_runner import BlockingPool, Limits, attack
from tests.sandbox_runner.processes import below

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = sorted((Path(__file__).parent / "data/hostile").glob("*.py"))
FEW = ("fork_bomb", "shell_command", "secrets_of_the_owner", "disk_filler", "infinite_loop",
       "signals_to_zygote", "sockets_of_every_family", "huge_frame")  # fmt: skip
HOSTS = {
    "root": [],
    "root without namespaces": ["--no-namespaces"],
    "ordinary user": ["--ordinary"],
    "ordinary user without namespaces": ["--ordinary", "--no-namespaces"],
}


def test_no_hostile_program_harms_its_neighbours_or_escapes(pool):
    pool.layers()
    processes, descriptors = set(below(os.getpid())), sorted(os.listdir("/proc/self/fd"))
    found, harm = attack.run(pool, [path.read_text() for path in HOSTILE])
    assert harm == []
    assert not [each for each in found if "ESCAPED" in each.outcome]
    assert len(found) >= 80 and sum(each.started for each in found) >= 75
    deadline = time.monotonic() + 5.0
    while set(below(os.getpid())) - processes and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not set(below(os.getpid())) - processes  # an earlier test's last child may have gone
    assert sorted(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize(
    ("outcome", "layer"),
    [
        ("limits: used more than 1 s of CPU time", "deadline"),
        ("robustness: step raised PermissionError at line 9: [Errno 1] Operation not", "seccomp"),
        ("refused: PermissionError 13", "landlock"),
        ("refused: FileNotFoundError 2", "private_root"),
        ("limits: step needs more than 256 MiB of memory", "limits"),
        ("robustness: the process spoke out of turn: reward 1e+300", "protocol"),
        ("parse: compiling raised RecursionError", "parse"),
        ("survived", "none"),
    ],
)
def test_the_layer_that_stopped_it_is_named(outcome, layer):
    assert attack.layer_of(outcome) == layer


@pytest.fixture
def folder():
    """A folder that other users can read, unlike those that pytest makes."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def attacked(host: list[str], folder: Path) -> tuple[list[dict], str]:
    """What `attack` said on such a host, a line per program; it must have succeeded."""
    script = Path(__file__).parent / "hosts.py"
    command = [sys.executable, "-m", "sandbox_runner", "attack", "--json", str(folder)]
    done = subprocess.run(
        [sys.executable, str(script), *host, "--", *command],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play other users and other hosts")
@pytest.mark.parametrize("host", HOSTS)
def test_every_kind_of_host_contains(host, folder):
    for name in FEW:
        shutil.copy(Path(__file__).parent / f"data/hostile/{name}.py", folder)
    found, told = attacked(HOSTS[host], folder)
    assert "healthy programs untouched" in told
    layers = {Path(each["file"]).stem: each["layer"] for each in found}
    files = "landlock" if "--no-namespaces" in HOSTS[host] else "private_root"
    assert layers == {
        "fork_bomb": "seccomp", "shell_command": "seccomp", "signals_to_zygote": "seccomp",
        "sockets_of_every_family": "seccomp", "disk_filler": "seccomp",
        "secrets_of_the_owner": files, "infinite_loop": "deadline", "huge_frame": "protocol",
    }  # fmt: skip
    assert not [each for each in found if "ESCAPED" in each["outcome"]]


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play other users and other hosts")
@pytest.mark.parametrize("host", HOSTS)
def test_every_kind_of_host_contains_all_of_them(host, folder):
    for path in HOSTILE:
        shutil.copy(path, folder)
    found, _ = attacked(HOSTS[host], folder)
    assert len(found) == len(HOSTILE)
    assert not [each for each in found if "ESCAPED" in each["outcome"]]


@pytest.mark.soak
def test_a_thousand_hostile_runs_leave_nothing_behind():
    """Descriptors, processes and the memory of runner and zygote stay as they were."""
    sources = [path.read_text() for path in HOSTILE]
    with BlockingPool(Limits(call_cpu=0.2, load_cpu=0.2, sleep_wall=0.3)) as pool:
        attack.run(pool, sources)
        sizes = []
        for _ in range(-(-1000 // len(sources))):
            assert attack.run(pool, sources)[1] == []
            time.sleep(0.5)
            everybody = below(os.getpid())
            sizes.append(
                (len(everybody), len(os.listdir("/proc/self/fd")), sum(map(resident, everybody)))
            )
    processes, descriptors, memory = zip(*sizes, strict=True)
    assert len(set(processes)) == 1 and len(set(descriptors)) == 1
    assert max(memory) - memory[0] < 4 << 20, memory


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
