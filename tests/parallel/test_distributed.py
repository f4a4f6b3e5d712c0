"""Real processes that find each other, exchange, fail and die; two CPU devices each."""

import subprocess
import sys

import pytest

from spade_jax.interrupt import PREEMPTED
from tests.processes import free_address, started

WALL = 90.0  # seconds
USAGE = 2  # as in spade_jax.main, whose flags must not meet another program's in one process


def outcome(what, logs, present=2):
    """Exit code and text of each of the first `present` of two processes that do `what` (see
    worker.py)."""
    address = free_address()
    worker = [sys.executable, "-m", "tests.parallel.worker", what, address]
    commands = [[*worker, str(index), str(logs / "folder")] for index in range(present)]
    with started(commands, logs, devices=2) as run:
        return run.wait(WALL), run.texts()


def test_parameters_move_and_results_come_together(tmp_path):
    codes, texts = outcome("share", tmp_path)
    assert codes == [0, 0], texts


@pytest.mark.parametrize(
    "what", [pytest.param("fail", marks=pytest.mark.soak), "fail_outside"]
)
def test_the_failure_of_one_process_ends_the_other_which_says_it(what, tmp_path):
    codes, texts = outcome(what, tmp_path)
    assert codes == [1, 1]
    assert "ValueError: nothing left" in texts[1]
    assert "HostError: process 1 failed: ValueError: nothing left" in texts[0]


def test_a_process_whose_settings_are_impossible_ends_all_with_the_code_that_says_so(tmp_path):
    codes, texts = outcome("refuse", tmp_path)
    assert codes == [USAGE, USAGE], texts
    assert "HostError: process 1 failed: SettingsError: made with others" in texts[0]


@pytest.mark.parametrize("what,victim", [
    ("preempt_0", 0), pytest.param("preempt_1", 1, marks=pytest.mark.soak), ("preempt_outside", 1),
])  # fmt: skip
def test_a_step_dropped_by_one_process_ends_all_as_preempted(what, victim, tmp_path):
    codes, texts = outcome(what, tmp_path)
    assert codes == [PREEMPTED, PREEMPTED], texts
    assert "the step was dropped" in texts[victim]
    assert f"HostError: process {victim} was preempted" in texts[1 - victim]


def test_a_checkpoint_that_one_process_cannot_read_is_passed_over_by_all(tmp_path):
    codes, texts = outcome("restore", tmp_path)
    assert codes == [0, 0], texts
    said = " ".join(texts[0].split())
    assert "damaged (process 1: " in said and "going on from checkpoint 1" in said
    assert (tmp_path / "folder" / "2.damaged").is_dir()


def test_the_death_of_one_process_ends_the_other_which_says_it(tmp_path):
    codes, texts = outcome("die", tmp_path)
    assert codes == [1, -9]
    assert "HostError: process 1 died" in texts[0]


def test_a_process_whose_partner_is_missing_ends(tmp_path):
    codes, texts = outcome("nothing", tmp_path, present=1)
    assert codes == [1]
    assert "HostError: not all processes came within distributed.start_s=3: " in texts[0]


def test_numbers_that_do_not_fit_are_named():
    code = (
        "from configs import base\n"
        "from spade_jax.parallel import joined\n"
        "section = base.get_config().distributed\n"
        "section.enabled, section.num_processes, section.process_id = True, 2, 5\n"
        f"section.coordinator = {free_address()!r}\n"
        "with joined(section): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=WALL, check=False
    )
    assert done.returncode != 0 and "ClusterError" in done.stderr
    assert "process_id=5" in done.stderr
