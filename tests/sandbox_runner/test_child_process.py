"""What a pool reads from the kernel about a child, against figures made up for it."""

import io

import pytest

from sandbox_runner import child_process
from sandbox_runner.child_process import Memory, Sleep

PAGE = child_process._PAGE


@pytest.fixture
def kernel(monkeypatch):
    """`kernel["stat"] = ...` is what /proc/7/stat holds from now on."""
    files = {}
    monkeypatch.setattr(
        child_process, "open", lambda path, mode: io.BytesIO(files[path[8:]]), raising=False
    )
    return files


def stat(state="S", faults=0):
    fields = [state, *"0" * 6, str(faults), *"0" * 15]
    return b"7 (a ) name) " + " ".join(fields).encode()


def looked(kernel, now, state, ran, waited, slices, sleep):
    """What `sleep` says at time `now`; `ran` and `waited` are seconds."""
    kernel["stat"] = stat(state)
    kernel["schedstat"] = f"{int(ran * 1e9)} {int(waited * 1e9)} {slices}\n".encode()
    return pytest.approx(sleep.look(7, now), abs=1e-6)


def test_sleep_is_what_was_neither_run_nor_waited(kernel):
    sleep = Sleep()
    assert looked(kernel, 100.0, "S", 1.0, 1.0, 5, sleep) == 0.0
    assert looked(kernel, 103.0, "S", 1.5, 2.0, 6, sleep) == 1.5
    sleep.begin()
    assert looked(kernel, 104.0, "S", 1.5, 2.0, 6, sleep) == 0.0
    assert looked(kernel, 104.5, "D", 1.5, 2.0, 6, sleep) == 0.5


def test_a_wait_that_is_not_over_is_no_sleep(kernel):
    sleep = Sleep()
    looked(kernel, 100.0, "R", 1.0, 1.0, 5, sleep)
    assert looked(kernel, 130.0, "R", 1.0, 1.0, 5, sleep) == 0.0
    assert looked(kernel, 131.0, "R", 1.1, 31.0, 6, sleep) == 0.0  # it was a wait
    assert looked(kernel, 131.1, "S", 1.2, 31.0, 6, sleep) == 0.9


def test_sleeping_between_the_looks_is_sleep_though_each_look_finds_it_awake(kernel):
    sleep = Sleep()
    looked(kernel, 100.0, "R", 1.0, 1.0, 5, sleep)
    for look in range(1, 21):
        found = looked(kernel, 100.0 + 0.1 * look, "R", 1.0, 1.0, 5 + 9 * look, sleep)
        assert found == 0.1 * (look - 1)


def test_a_process_that_is_gone_does_not_sleep():
    assert Sleep().look(2**22 + 1, 100.0) == 0.0  # no process has so high a number


def test_memory_is_bounded_by_faults_and_by_what_is_its_own_until_it_is_read(kernel):
    memory = Memory()
    kernel["stat"], kernel["statm"] = stat(faults=30), b"900 500 100 0 0 0 0"
    memory.look(7)
    assert memory.most == 30 * PAGE  # since it was forked
    kernel["stat"] = stat(faults=1000)  # many of them for memory that it gave back
    memory.look(7)
    assert memory.most == 400 * PAGE
    kernel["smaps_rollup"] = b"Rss: 900 kB\nPrivate_Clean: 4 kB\nPrivate_Dirty: 40 kB\n"
    assert memory.read(7) == memory.most == 44 << 10
    kernel["stat"] = stat(faults=1010)
    memory.look(7)
    assert memory.most == (44 << 10) + 10 * PAGE


def test_where_the_exact_figure_may_not_be_read_the_bound_holds(kernel, monkeypatch):
    memory = Memory()
    kernel["stat"], kernel["statm"] = stat(faults=30), b"900 500 100 0 0 0 0"
    plain = child_process.open

    def forbidden(path, mode):
        if path.endswith("smaps_rollup"):
            raise PermissionError
        return plain(path, mode)

    monkeypatch.setattr(child_process, "open", forbidden, raising=False)
    assert memory.read(7) == memory.most == 30 * PAGE
