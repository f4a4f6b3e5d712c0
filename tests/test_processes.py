"""Runs of several processes that are stopped, killed and taken up by another number of them."""

import re
import signal

import pytest

from spade_jax.metrics import read_metrics
from tests.processes import as_group, started
from tests.small_runs import WALL, assert_alike, command, run

pytestmark = pytest.mark.soak
STEPS = 4
ROWS = {"learner.designer.rows": 4, "learner.agent.rows": 4}  # that four processes share


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run of one process, which every other one borrows its warm start from."""
    workdir = tmp_path_factory.mktemp("whole")
    settings = {**ROWS, "steps": STEPS, "compilation_cache": workdir.parent / "programs"}
    printed = run(workdir, **settings)
    return workdir, {**settings, "warm_start.path": workdir}, last_loss(printed)


def last_loss(printed):
    """Of the warm start."""
    return float(re.findall(r"warm start (\d+)/\1 .* loss ([\d.]+)", printed)[0][1])


def group_command(workdir, settings, count):
    return as_group(command(workdir, **settings), count)


def test_four_processes_train_as_one(whole, tmp_path):
    one, settings, _ = whole
    commands = group_command(tmp_path / "four", settings, 4)
    with started(commands, tmp_path / "logs") as group:
        assert group.wait(4 * WALL) == [0] * 4, group.texts()
    assert_alike(read_metrics(tmp_path / "four"), read_metrics(one))


def test_the_warm_start_of_two_processes_of_two_devices_each(whole, tmp_path):
    _, settings, loss = whole
    meshes = {"mesh.fsdp": 2, "replica.data": 1, "replica.fsdp": 2}
    settings = {**settings, **meshes, "steps": 1, "warm_start.path": ""}
    commands = group_command(tmp_path / "two", settings, 2)
    with started(commands, tmp_path / "logs", devices=2) as group:
        assert group.wait(4 * WALL) == [0, 0], group.texts()
    assert last_loss(group.texts()[0]) == pytest.approx(loss, rel=0.02)
    assert read_metrics(tmp_path / "two")[-1]["train/logprob_gap"] < 1e-3


@pytest.mark.parametrize("others", [1, 4])
def test_a_signal_to_one_process_stops_all_and_others_go_on(whole, tmp_path, others):
    one, settings, _ = whole
    patient = {"checkpoint.every": 100, "checkpoint.grace_s": WALL}
    workdir, settings = tmp_path / "stopped", {**settings, **patient}
    with started(group_command(workdir, settings, 2), tmp_path / "logs") as group:
        group.wait_for_step(workdir, 1, WALL)
        group.processes[1].send_signal(signal.SIGTERM)
        codes = group.wait(WALL)
        assert codes[0] == codes[1], group.texts()
    assert "the same command goes on" in " ".join(group.texts()[0].split())
    assert 1 <= read_metrics(workdir)[-1]["step"] < STEPS
    finish(workdir, settings, others, tmp_path)
    assert_alike(read_metrics(workdir), read_metrics(one))


@pytest.mark.parametrize("victim", [0, 1])
def test_kill_9_of_one_process_ends_all_and_others_go_on(whole, tmp_path, victim):
    one, settings, _ = whole
    workdir = tmp_path / "killed"
    with started(group_command(workdir, settings, 2), tmp_path / "logs") as group:
        group.wait_for_step(workdir, 2, WALL)
        group.processes[victim].kill()
        codes = group.wait(WALL)
    assert codes[victim] == -signal.SIGKILL and codes[1 - victim] not in (0, None)
    finish(workdir, settings, 1 + victim, tmp_path)
    assert_alike(read_metrics(workdir), read_metrics(one))


def finish(workdir, settings, count, tmp_path):
    if count == 1:
        run(workdir, **settings)
        return
    with started(group_command(workdir, settings, count), tmp_path / "rest") as group:
        assert group.wait(4 * WALL) == [0] * count, group.texts()
