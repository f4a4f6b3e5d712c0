"""The backend on XManager. What needs its package runs only where that is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launch.backends import BACKENDS, xm
from launch.clusters import Cluster
from launch.errors import LaunchError
from launch.plan import Request
from launch.sweeps import STUDY
from launch.units import units

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = str(Path(__file__).with_name("stand_in.py"))


def request(folder, workdir="runs/x"):
    chosen = units(STUDY, workdir)
    return Request(chosen, workdir, Path(folder), Cluster(), failures=5, parallel=2)


def test_a_sweep_is_one_experiment_that_is_told_every_unit(monkeypatch):
    monkeypatch.setattr(xm, "require", lambda *_: None)
    asked = request("folder")
    plan = BACKENDS["xm"](asked)
    ((path, text),) = plan.files.items()
    (job,) = plan.jobs
    assert job.command == (sys.executable, "-m", "launch.xm_experiment", str(path))
    told = json.loads(text)
    assert (told["title"], told["parallel"]) == ("x", 2)
    assert [(unit["name"], unit["after"]) for unit in told["units"]] == [
        (unit.name, unit.after) for unit in asked.units
    ]
    assert told["units"][0]["command"] == list(asked.units[0].command(sys.executable))


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xmanager", None)
    with pytest.raises(LaunchError, match=r"pip install 'spade_jax\[xm\]'"):
        BACKENDS["xm"](request("folder"))


def test_it_runs_here():
    with pytest.raises(LaunchError, match="expected a folder"):
        BACKENDS["xm"](request("folder", "gs://bucket/x"))


def test_units_run_in_order_and_a_failed_one_holds_up_those_that_need_it(tmp_path):
    pytest.importorskip("xmanager", reason="the extra xm is not installed")

    def unit(name, after=None, command=None):
        stand_in = [sys.executable, STAND_IN, str(tmp_path / name), "3"]
        return {"name": name, "command": command or stand_in, "after": after}

    fails = [sys.executable, "-c", "import sys; sys.exit('it\\'s over')"]
    told = {
        "title": "x",
        "parallel": 2,
        "units": [unit("b", "a"), unit("a"), unit("c", command=fails), unit("d", "c")],
    }
    path = tmp_path / "experiment.json"
    path.write_text(json.dumps(told))
    done = subprocess.run(
        [sys.executable, "-m", "launch.xm_experiment", str(path)], cwd=ROOT, timeout=120,
        capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "it's over" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.endswith("not finished")] == [
        "c: not finished", "d: not finished"
    ]  # fmt: skip
    assert [(tmp_path / name / "metrics.jsonl").exists() for name in "abd"] == [True, True, False]
