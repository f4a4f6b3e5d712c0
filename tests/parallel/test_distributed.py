"""Real processes that find each other, exchange, fail and die; two CPU devices each."""

import sys

import pytest

from configs import base
from spade_jax.parallel import HostError, joined
from tests.processes import free_address, started

WALL = 90.0  # seconds


def outcome(what, logs, present=2):
    """Exit code and text of each of the first `present` of two processes that do `what` (see
    worker.py)."""
    address = free_address()
    worker = [sys.executable, "-m", "tests.parallel.worker", what, address]
    commands = [[*worker, str(index)] for index in range(present)]
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


def test_the_death_of_one_process_ends_the_other_which_says_it(tmp_path):
    codes, texts = outcome("die", tmp_path)
    assert codes == [1, -9]
    assert "HostError: process 1 died" in texts[0]


def test_a_process_whose_partner_is_missing_ends(tmp_path):
    codes, texts = outcome("nothing", tmp_path, present=1)
    assert codes == [1]
    assert "HostError: not all processes came within distributed.start_s=3: " in texts[0]


def test_numbers_that_do_not_fit_are_named():
    section = base.get_config().distributed
    section.enabled, section.num_processes, section.process_id = True, 2, 5
    section.coordinator = free_address()
    with pytest.raises(HostError, match="process_id=5"), joined(section):
        pass
