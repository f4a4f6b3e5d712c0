import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from spade_jax.metrics import NON_FINITE, MetricsError, MetricsWriter, read_metrics


class Recorder:
    """A sink that keeps what it is told."""

    def __init__(self):
        self.told = []

    def write(self, step, numbers):
        self.told.append((step, dict(numbers)))

    def rewind(self):
        self.told.append("rewind")

    def close(self):
        self.told.append("close")


def test_a_step_is_one_line_that_reads_back(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        writer.write(0, {"loss": 0.5, "count": np.int64(3), "skill": "logic", "ok": np.bool_(True)})
        writer.write(4, {"loss": np.float32(0.25), "absent": None})
    assert (tmp_path / "metrics.jsonl").read_bytes().count(b"\n") == 2
    assert read_metrics(tmp_path) == [
        {"step": 0, "loss": 0.5, "count": 3, "skill": "logic", "ok": True},
        {"step": 4, "loss": 0.25, "absent": None},
    ]


def test_a_line_is_on_disk_before_write_returns(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(1, {"loss": 1.0})
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 1.0}]
    writer.close()


def test_the_file_is_closed_between_steps(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        writer.write(1, {})
        (tmp_path / "metrics.jsonl").rename(tmp_path / "aside")  # an open file would move along
        writer.write(2, {})
    assert read_metrics(tmp_path) == [{"step": 2}]


def test_values_that_are_not_finite_become_null_and_are_counted(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        writer.write(1, {"a": float("nan"), "b": np.float32("inf"), "c": 1.0, "d": None})
        writer.write(2, {"a": 2.0})
    assert read_metrics(tmp_path) == [
        {"step": 1, "a": None, "b": None, "c": 1.0, "d": None, NON_FINITE: 2},
        {"step": 2, "a": 2.0},
    ]
    assert b"NaN" not in (tmp_path / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("value", [np.zeros(2), [1.0], {"a": 1}, object(), 1j])
def test_other_values_are_refused_by_name_and_leave_no_line(tmp_path, value):
    with MetricsWriter(tmp_path) as writer:
        with pytest.raises(TypeError, match="metric 'bad'"):
            writer.write(1, {"good": 1, "bad": value})
        writer.write(1, {"good": 1})
    assert read_metrics(tmp_path) == [{"step": 1, "good": 1}]


def test_a_step_is_written_once_and_in_order(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        writer.write(5, {})
        for step in (5, 4):
            with pytest.raises(MetricsError, match=f"step {step} after step 5"):
                writer.write(step, {})
    with MetricsWriter(tmp_path) as writer, pytest.raises(MetricsError, match="truncate_after"):
        writer.write(5, {})


def test_a_resumed_run_redoes_the_steps_after_its_checkpoint(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        for step in range(6):
            writer.write(step, {"run": 1})
    with MetricsWriter(tmp_path) as writer:
        assert writer.truncate_after(3) == 2
        for step in range(4, 7):
            writer.write(step, {"run": 2})
    assert [(row["step"], row["run"]) for row in read_metrics(tmp_path)] == [
        (0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl"]


def test_truncating_within_a_run_lets_it_continue(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        writer.write(0, {"a": 1})
        writer.write(1, {"a": 1})
        assert writer.truncate_after(-1) == 2
        writer.write(0, {"a": 2})
    assert read_metrics(tmp_path) == [{"step": 0, "a": 2}]


def test_every_sink_gets_the_finite_numbers_and_hears_of_steps_that_come_again(tmp_path):
    one, other = Recorder(), Recorder()
    with MetricsWriter(tmp_path, [one, other]) as writer:
        writer.write(3, {"loss": np.float32(0.5), "skill": "logic", "bad": float("nan"), "c": None})
        writer.truncate_after(3)
        writer.truncate_after(2)
        writer.write(3, {"loss": 0.25})
    assert one.told == other.told == [
        (3, {"loss": 0.5, NON_FINITE: 1}), "rewind", (3, {"loss": 0.25}), "close"
    ]


def test_truncating_after_the_last_step_changes_nothing(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        writer.write(0, {"a": 1})
        before = (tmp_path / "metrics.jsonl").stat().st_ino
        assert writer.truncate_after(0) == 0
    assert (tmp_path / "metrics.jsonl").stat().st_ino == before


@pytest.mark.parametrize(("torn", "steps"), [
    (b'{"step":2,"a":', [0, 1, 2]),
    (b'{"step":2,"a":1}', [0, 1, 2, 3]),
    (b'{"st', [0, 1, 2]),
])
def test_a_torn_last_line_is_repaired_on_opening(tmp_path, torn, steps):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":0}\n{"step":1}\n' + torn)
    assert len(read_metrics(tmp_path)) == len(steps) - 1
    with MetricsWriter(tmp_path) as writer:
        writer.write(steps[-1], {})
    assert [row["step"] for row in read_metrics(tmp_path)] == steps


@pytest.mark.parametrize("line", [b"oops", b"[1]", b'{"a": 1}', b'{"step": "x"}'])
def test_a_broken_line_elsewhere_is_an_error_that_names_it(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step":0}\n' + line + b"\n")
    with pytest.raises(MetricsError, match="line 2"):
        read_metrics(tmp_path)
    with pytest.raises(MetricsError, match="line 2"):
        MetricsWriter(tmp_path)


def test_without_a_file_there_are_no_rows(tmp_path):
    assert read_metrics(tmp_path) == []


def test_closing_twice_is_harmless(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(0, {"a": 1})
    writer.close()
    writer.close()


def test_a_killed_process_loses_no_written_step(tmp_path):
    code = textwrap.dedent("""
        import os, signal, sys
        from spade_jax.metrics import MetricsWriter
        writer = MetricsWriter(sys.argv[1])
        for step in range(20):
            writer.write(step, {"a": step})
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == -signal.SIGKILL
    assert [row["a"] for row in read_metrics(tmp_path)] == list(range(20))
