"""Jobs with real processes and signals; tests/launch/stand_in.py stands in for a run."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from launch import jobs
from launch.errors import LaunchError
from launch.jobs import Job, Limits, Record, State, run_jobs

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = str(Path(__file__).with_name("stand_in.py"))
DEADLINE = 60.0  # seconds that anything here may take
FOREVER = 100_000  # steps that a run will not get through in that time


def job(folder, name="run", steps=3, behaviour="", **more):
    command = (sys.executable, STAND_IN, str(folder / name), str(steps), behaviour)
    return Job(name, command, workdir=folder / name, **more)


def script(name, text, **more):
    return Job(name, (sys.executable, "-c", text), **more)


def steps(folder, name="run"):
    path = folder / name / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for(holds):
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end, "not within the deadline"
        time.sleep(0.01)


def alive(pid):
    """A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pid_in(path):
    wait_for(lambda: path.exists() and path.read_text())
    return int(path.read_text())


LAUNCHER = """
import pathlib, sys
from launch.jobs import Job, Limits, run_jobs
folder = pathlib.Path(sys.argv[1])
made = [Job(name, tuple(sys.argv[2:4]) + (str(folder / name), *sys.argv[4:]), workdir=folder / name)
        for name in ("first", "second", "third")]
records = run_jobs(made, folder / "launch", Limits(parallel=2))
print(*(record.state for record in records.values()))
"""


@pytest.fixture
def launcher(tmp_path):
    """Starts a process that launches three endless runs, two at once; waits until those work."""
    started = []

    def start(behaviour=""):
        command = [sys.executable, "-c", LAUNCHER, tmp_path, sys.executable, STAND_IN, FOREVER,
                   behaviour]  # fmt: skip
        process = subprocess.Popen(
            list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        wait_for(lambda: steps(tmp_path, "first") and steps(tmp_path, "second"))
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_finished_job_is_not_run_again(tmp_path):
    first = run_jobs([job(tmp_path)], tmp_path, Limits())["run"]
    assert (first.state, first.code, first.starts) == (State.FINISHED, 0, 1)
    assert run_jobs([job(tmp_path)], tmp_path, Limits())["run"] == first
    assert (tmp_path / "run.log").read_text() == "from step 0\n"


@pytest.mark.parametrize("change", ["other command", "no workdir", "cut short"])
def test_a_job_is_run_again_whose_record_does_not_say_that_it_finished(change, tmp_path):
    run_jobs([job(tmp_path)], tmp_path, Limits())
    wanted = job(tmp_path)
    if change == "other command":
        wanted = job(tmp_path, steps=5)
    elif change == "no workdir":
        (tmp_path / "run").rename(tmp_path / "moved")
    else:  # the launcher died with the job
        path = tmp_path / "run.json"
        path.write_text(path.read_text().replace('"finished"', '"running"'))
    assert run_jobs([wanted], tmp_path, Limits())["run"].state == State.FINISHED
    assert (tmp_path / "run.log").read_text().count("from step") == 2


def test_a_record_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(LaunchError, match=r"run\.json: expected the record of a job"):
        run_jobs([job(tmp_path)], tmp_path, Limits())


def test_two_run_at_once_and_never_three(tmp_path):
    text = f"""
import pathlib, sys, time
root, end = pathlib.Path({str(tmp_path)!r}), time.monotonic() + {DEADLINE}
(root / "at_work_NAME").touch()
print(len(list(root.glob("at_work_*"))))
(root / "came_NAME").touch()
while not all((root / f"came_{{name}}").exists() for name in "ab"):  # neither leaves before both
    time.sleep(0.01)
    if time.monotonic() > end:
        sys.exit("alone")
(root / "at_work_NAME").unlink()
"""
    made = [script(name, text.replace("NAME", name)) for name in "abcd"]
    records = run_jobs(made, tmp_path, Limits(parallel=2))
    assert {record.state for record in records.values()} == {State.FINISHED}
    assert max(int((tmp_path / f"{name}.log").read_text()) for name in "abcd") == 2


def test_a_job_waits_for_the_one_it_needs(tmp_path):
    path = str(tmp_path / "made")
    slow = script("slow", f"import time; time.sleep(0.5); open({path!r}, 'w')")
    needs = script("needs", f"open({path!r})", after="slow")
    records = run_jobs([needs, slow], tmp_path, Limits(parallel=2))
    assert {record.state for record in records.values()} == {State.FINISHED}


@pytest.mark.parametrize("keep_going", [True, False])
def test_after_a_failure_others_start_unless_told_otherwise(keep_going, tmp_path):
    fails = script("fails", "import sys; sys.exit('why it failed')")
    needs = script("needs", "", after="fails")
    other = script("other", "")
    records = run_jobs([fails, needs, other], tmp_path, Limits(keep_going=keep_going))
    states = {name: record.state for name, record in records.items()}
    assert states == {
        "fails": State.FAILED,
        "needs": State.WAITING,
        "other": State.FINISHED if keep_going else State.WAITING,
    }
    assert records["fails"].code == 1
    assert (tmp_path / "fails.log").read_text() == "why it failed\n"
    again = run_jobs([script("other", "")], tmp_path, Limits(keep_going=False))
    assert again["other"].state == State.FINISHED


def test_a_failure_of_an_earlier_launch_holds_nothing_up(tmp_path):
    flag = tmp_path / "flag"
    fails_once = script("once", f"import os; os.mkdir({str(flag)!r}) or exit(1)")
    mended = script("later", "")
    run_jobs([fails_once], tmp_path, Limits())
    flag.rmdir()
    records = run_jobs([mended, fails_once], tmp_path, Limits(keep_going=False))
    assert [record.state for record in records.values()] == [State.FINISHED, State.FAILED]


def test_a_preempted_job_is_run_again_and_goes_on_where_it_was(tmp_path):
    record = run_jobs([job(tmp_path, behaviour="preempted")], tmp_path, Limits())["run"]
    assert (record.state, record.starts, steps(tmp_path)) == (State.FINISHED, 3, 3)
    assert (tmp_path / "run.log").read_text() == "from step 0\nfrom step 1\nfrom step 2\n"


def test_a_job_is_preempted_only_so_often(tmp_path):
    limits = Limits(preemptions=1)
    record = run_jobs([job(tmp_path, behaviour="preempted")], tmp_path, limits)["run"]
    assert (record.state, record.code, record.starts) == (State.PREEMPTED, jobs.PREEMPTED, 2)
    record = run_jobs([job(tmp_path, behaviour="preempted")], tmp_path, limits)["run"]
    assert (record.state, record.starts) == (State.FINISHED, 3)


@pytest.mark.parametrize("behaviour", ["", "stubborn"])
def test_a_job_that_takes_too_long_is_ended(behaviour, tmp_path):
    endless = job(tmp_path, steps=FOREVER, behaviour=behaviour)
    record = run_jobs([endless], tmp_path, Limits(hours=0.5 / 3600, grace=0.5))["run"]
    assert (record.state, record.code) == (State.FAILED, None)
    pids = [int(path.read_text()) for path in (tmp_path / "run").glob("pid")]
    assert not any(map(alive, pids))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_running_jobs_save_and_the_next_launch_goes_on(
    number, tmp_path, launcher
):
    process = launcher()
    process.send_signal(number)
    out, _ = process.communicate(timeout=DEADLINE)
    assert out.splitlines()[-1] == "stopped stopped waiting"
    for name in ("first", "second"):
        assert (tmp_path / "launch" / f"{name}.log").read_text() == "from step 0\nsaved\n"
        assert not alive(pid_in(tmp_path / name / "pid"))
    assert not (tmp_path / "third").exists()
    before = steps(tmp_path, "first")
    longer = job(tmp_path, "first", steps=before + 2)
    run_jobs([longer], tmp_path / "launch", Limits())
    assert steps(tmp_path, "first") == before + 2


def test_the_second_signal_kills_them_with_all_their_children(tmp_path, launcher):
    process = launcher("stubborn")
    pids = [pid_in(tmp_path / name / file) for name in ("first", "second")
            for file in ("pid", "child")]  # fmt: skip
    process.terminate()
    line = ""
    while "stopping" not in line:
        line = process.stdout.readline()
    assert all(map(alive, pids))
    process.terminate()
    out, _ = process.communicate(timeout=DEADLINE)
    assert out.splitlines()[-1] == "stopped stopped waiting"
    wait_for(lambda: not any(map(alive, pids)))


def test_jobs_that_do_not_stop_in_time_are_killed(tmp_path):
    endless = job(tmp_path, steps=FOREVER, behaviour="stubborn")
    told = []

    def stop_at_work():
        pid_in(tmp_path / "run" / "pid")
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop_at_work)
    stopper.start()
    record = run_jobs([endless], tmp_path, Limits(grace=0.2), told.append)["run"]
    stopper.join()
    assert (record.state, record.code) == (State.STOPPED, -signal.SIGKILL)
    assert any(line.startswith("stopping: 1 running") for line in told)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_no_job_outlives_a_launcher_that_was_killed(tmp_path, launcher):
    process = launcher()
    pids = [pid_in(tmp_path / name / "pid") for name in ("first", "second")]
    process.kill()
    wait_for(lambda: not any(map(alive, pids)))
    assert (tmp_path / "launch" / "first.log").read_text() == "from step 0\nsaved\n"
    assert json.loads((tmp_path / "launch" / "first.json").read_text())["state"] == "running"


def test_what_a_job_leaves_running_ends_with_it(tmp_path):
    text = (
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)\n"
    )
    assert run_jobs([script("run", text)], tmp_path, Limits())["run"].state == State.FINISHED
    left = int((tmp_path / "run.log").read_text())
    wait_for(lambda: not alive(left))


def test_two_launchers_do_not_work_in_one_folder(tmp_path, launcher):
    launcher()
    with pytest.raises(LaunchError, match="another launcher works there"):
        run_jobs([], tmp_path / "launch", Limits())


def test_jobs_share_the_cores_evenly(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4}, raising=False)
    assert jobs.shared_cores(1) == [""]
    assert jobs.shared_cores(2) == ["0,2,4", "1,3"]
    assert jobs.shared_cores(7) == ["0", "1", "2", "3", "4", "0", "1"]


def test_a_command_that_does_not_exist_is_a_failure(tmp_path):
    record = run_jobs([Job("run", ("no-such-program",))], tmp_path, Limits())["run"]
    assert record == Record(["no-such-program"], State.FAILED, 1, 1, record.seconds)
    assert "no-such-program" in (tmp_path / "run.log").read_text()
