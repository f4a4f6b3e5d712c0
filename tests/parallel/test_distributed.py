"""Real processes that find each other, exchange, fail and die; two CPU devices each."""

import pathlib
import sys
import time

import pytest

from configs import base
from spade_jax.parallel import HostError, joined
from tests.processes import free_address, started

WORKER = pathlib.Path(__file__).with_name("worker.py")
WALL = 90.0  # seconds


def outcome(what, logs, count=2):
    """Exit code and text of each process that does `what` (see worker.py)."""
    address = free_address()
    commands = [
        [sys.executable, str(WORKER), what, address, str(count), str(index), "2"]
        for index in range(count)
    ]
    with started(commands, logs) as run:
        return run.wait(WALL), run.texts()


@pytest.mark.parametrize("what", ["move", "exchange"])
def test_processes_of_two_devices_each(what, tmp_path):
    codes, texts = outcome(what, tmp_path)
    assert codes == [0, 0], texts
    assert all("done" in text for text in texts)


@pytest.mark.parametrize("what", ["fail", "fail_outside"])
def test_the_failure_of_one_process_ends_the_other_which_says_it(what, tmp_path):
    codes, texts = outcome(what, tmp_path)
    assert 0 not in codes
    assert "ValueError: nothing left" in texts[1]
    assert "HostError: process 1 failed: ValueError: nothing left" in texts[0]


def test_the_death_of_one_process_ends_the_other(tmp_path):
    began = time.monotonic()
    codes, texts = outcome("die", tmp_path)
    assert codes[0] != 0 and codes[1] == -9
    assert "done" not in texts[0] and time.monotonic() - began < WALL


def test_who_comes_too_late_is_named(tmp_path):
    codes, texts = outcome("hang", tmp_path)
    assert 0 not in codes
    assert "process 1 did not come to 'wait' within distributed.timeout_s=2" in texts[0]


def test_processes_that_are_not_found_are_an_error_with_the_settings(tmp_path):
    section = base.get_config().distributed
    section.enabled, section.num_processes, section.process_id = True, 2, 5
    section.coordinator = free_address()
    with pytest.raises(HostError, match="process_id=5"), joined(section):
        pass
