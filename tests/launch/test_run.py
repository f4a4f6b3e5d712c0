"""The command line, as a person uses it. A stand-in takes the place of spade_jax.main."""

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launch.backends.pods import USAGE_ERROR

ROOT = Path(__file__).resolve().parents[2]
STAND_IN_MAIN = """
import sys
sys.path.insert(0, {tests!r})
from stand_in import main
given = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
if "fails" in given["workdir"]:
    sys.exit("why it failed")
sys.exit(main(given["workdir"], given["config.steps"]))
"""


@pytest.fixture
def checkout(tmp_path):
    """A copy of what a launcher needs, with a stand-in for the run."""
    for name in ("launch", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    package = tmp_path / "spade_jax"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("metrics.py", "extras.py"):
        shutil.copy(ROOT / "spade_jax" / name, package)
    text = STAND_IN_MAIN.format(tests=str(Path(__file__).parent))
    (package / "main.py").write_text(text)
    return tmp_path


def run(folder, *flags):
    command = [sys.executable, "-m", "launch.run", *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_a_sweep_runs_here_shows_a_table_and_is_not_run_twice(checkout):
    flags = ("--sweep=seeds", "--workdir=runs/x", "--set=steps=2", "--max_parallel=2")
    done = run(checkout, *flags)
    assert done.returncode == 0, done.stderr
    head, *rows = [line.split() for line in done.stdout.splitlines()[-6:]]
    assert head[:5] == ["run", "state", "steps", "valid", "win"]
    assert [(row[:6], row[-2:]) for row in rows] == [
        (
            [f"seed_{seed}/run", "finished", "2", "-", "-", "0.020"],
            ["1", f"runs/x/launch/seed_{seed}_run.log"],
        )
        for seed in range(5)
    ]
    again = run(checkout, *flags)
    assert again.returncode == 0 and "started" not in again.stdout
    longer = run(checkout, *flags[:2], "--set=steps=3", "--max_parallel=2")
    assert longer.returncode == 0
    log = (checkout / "runs/x/launch/seed_0_run.log").read_text()
    assert log == "from step 0\nfrom step 2\n"


def test_a_unit_that_fails_shows_why_and_the_launch_fails(checkout):
    done = run(checkout, "--sweep=single", "--workdir=runs/fails", "--set=steps=2")
    assert done.returncode == 1
    assert "why it failed" in done.stdout and "failed" in done.stdout
    record = json.loads((checkout / "runs/fails/launch/seed_0_run.json").read_text())
    assert (record["state"], record["code"]) == ("failed", 1)


def test_dry_run_shows_the_commands_and_leaves_nothing(checkout):
    done = run(checkout, "--sweep=study", "--workdir=runs/x", "--dry_run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * 15
    assert lines[-2] == "==> seed_2/no_memory, after seed_2/warm"
    assert shlex.split(lines[-1])[:3] == [sys.executable, "-m", "spade_jax.main"]
    assert not (checkout / "runs").exists()


def test_dry_run_loads_neither_jax_nor_the_parts_that_it_does_not_need():
    code = (
        "import sys\nfrom absl import app\nfrom launch import run\n"
        "app.run(run.main, ['run', '--sweep=study', '--workdir=x', '--dry_run'])"
    )
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], cwd=ROOT, capture_output=True, text=True,
        timeout=120, check=True,
    )  # fmt: skip
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "launch.units" in loaded
    assert loaded.isdisjoint({"jax", "numpy", "rich", "xmanager", "spade_jax.main"})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--backend=gke", "--cluster=v5p_64", "--workdir=gs://b/x"], "needs --image ("),
        (["--backend=tpu_vm", "--cluster=v5p_64", "--workdir=gs://b/x"], "--project ("),
        (["--workdir=gs://b/x"], "expected a folder"),
        (["--workdir=x", "--set=steps"], "expected KEY=VALUE"),
        (["--workdir=x", "--set=stepss=1"], "setting 'stepss': expected a key of"),
        (["--workdir=x", "--config=configs/none.py"], "expected a recipe"),
    ],
)
def test_what_is_asked_wrongly_is_said_in_one_line_before_anything_starts(flags, said, checkout):
    done = run(checkout, "--sweep=single", *flags)
    assert done.returncode == 2
    assert done.stderr.startswith("LaunchError: ") and said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (checkout / "runs").exists()


def test_a_program_that_is_not_installed_is_named(checkout, monkeypatch):
    bash = Path(shutil.which("bash"))
    (checkout / "bin").mkdir()
    (checkout / "bin" / "bash").symlink_to(bash)
    monkeypatch.setenv("PATH", str(checkout / "bin"))
    done = run(
        checkout, "--sweep=single", "--backend=gke", "--cluster=v5p_64", "--workdir=gs://b/x",
        "--image=i/i", "--context=c",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2, "LaunchError: --backend=gke needs the program kubectl: not found\n"
    )  # fmt: skip
    assert not (checkout / "runs").exists()


def test_a_launcher_that_is_refused_leaves_the_files_of_the_one_at_work(checkout, monkeypatch):
    program = checkout / "bin" / "kubectl"
    program.parent.mkdir()
    program.symlink_to(shutil.which("true"))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    folder = checkout / "runs/launch/x"
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = run(
            checkout, "--sweep=single", "--backend=gke", "--cluster=v5p_64", "--workdir=gs://b/x",
            "--image=i/i", "--context=c",
        )  # fmt: skip
    assert done.returncode == 2 and "another launcher works there" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["lock"]


@pytest.mark.parametrize(("error", "final"), [("SaveError", False), ("CheckpointError", True)])
def test_a_save_that_failed_is_no_reason_not_to_start_the_run_again(error, final, tmp_path):
    code = (
        "from spade_jax import checkpoint, main, modes\n"
        f"def fail(*_): raise checkpoint.{error}('why')\n"
        "modes.MODES['train'] = fail\nmain.run(main.main)"
    )
    command = [sys.executable, "-c", code, "--config=configs/tiny.py", f"--workdir={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stderr == f"{error}: why\n"
    assert (done.returncode == USAGE_ERROR) == final and done.returncode != 0


def test_a_run_refuses_a_bucket_instead_of_making_a_folder_of_its_name():
    command = [sys.executable, "-m", "spade_jax.main", "--config=configs/tiny.py"]
    done = subprocess.run(
        [*command, "--workdir=gs://bucket/x"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (
        USAGE_ERROR,
        "ConfigError: --workdir=gs://bucket/x: expected a folder; a bucket is mounted as one first"
        " (docs/tpu.md)\n",
    )  # fmt: skip
    assert not (ROOT / "gs:").exists()
