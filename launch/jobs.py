"""Runs jobs, some at a time, to their ends: records, restarts, clean interruption."""

import asyncio
import contextlib
import dataclasses
import enum
import fcntl
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from launch import child
from launch.errors import LaunchError

PREEMPTED = 75  # EX_TEMPFAIL: the run was told to stop, and wants to be run again


class State(enum.StrEnum):
    WAITING = "waiting"  # never started: the job before it has not finished, or a stop came first
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"  # by whoever stopped the launcher
    PREEMPTED = "preempted"  # more often than it may be run again


@dataclasses.dataclass(frozen=True)
class Job:
    """Attributes:
    name: unique among the jobs of a folder.
    after: name of the job that must have finished before this one starts.
    workdir: what it leaves; where that is gone, a finished job is run again.
    watches: name of what it watches over elsewhere, which runs on where the job is ended.
    """

    name: str
    command: tuple[str, ...]
    after: str | None = None
    workdir: pathlib.Path | None = None
    watches: str | None = None

    def path(self, folder: pathlib.Path, suffix: str) -> pathlib.Path:
        """Its log (".log") or record (".json") in the folder of a launch."""
        return folder / f"{self.name.replace('/', '_')}{suffix}"


@dataclasses.dataclass(frozen=True)
class Limits:
    """Attributes:
    parallel: most jobs at once; they share the processor's cores evenly.
    preemptions: how often a job that was preempted is run again.
    hours: most that one job may take, all its restarts together.
    grace: seconds that jobs have to save after the first signal.
    keep_going: whether others start after one has failed.
    """

    parallel: int = 1
    preemptions: int = 20
    hours: float = 168.0
    grace: float = 600.0
    keep_going: bool = True


@dataclasses.dataclass
class Record:
    """What is kept of a job beside its log.

    Attributes:
        code: of its last exit; negative: the signal that ended it. None: it was never run, took
            too long, or its launcher died.
        starts: of its command, over all launches.
        seconds: it ran, over all launches.
    """

    command: list[str]
    state: State = State.WAITING
    code: int | None = None
    starts: int = 0
    seconds: float = 0.0

    @classmethod
    def load(cls, job: Job, folder: pathlib.Path) -> "Record":
        """The job's record, finished or waiting; a new one where its command was another."""
        path, new = job.path(folder, ".json"), cls(list(job.command))
        if not path.exists() or (job.workdir is not None and not job.workdir.exists()):
            return new
        try:
            record = cls(**json.loads(path.read_text()))
        except (TypeError, ValueError) as error:
            raise LaunchError(f"{path}: expected the record of a job: {error}") from error
        if record.state != State.FINISHED:
            record.state = State.WAITING
        return record if record.command == new.command else new

    def save(self, job: Job, folder: pathlib.Path) -> None:
        path = job.path(folder, ".json")
        temporary = path.with_suffix(".json.new")
        temporary.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        temporary.replace(path)


def run_jobs(
    jobs: Sequence[Job],
    folder: pathlib.Path,
    limits: Limits,
    say: Callable[[str], None] = lambda line: print(line, flush=True),
    files: Mapping[pathlib.Path, str] | None = None,
) -> dict[str, Record]:
    """Runs every job that has not finished yet, its output appended to its log in `folder`.

    The first SIGINT or SIGTERM starts no further job and sends SIGTERM to those that run, which
    save and stop; a second one, or `limits.grace`, kills their process groups. A job that exits
    with PREEMPTED is run again. Call it in the main thread.

    Args:
        say: is told what starts and ends, a line at a time.
        files: path -> content, written before the jobs start, once no other launcher works here.

    Returns:
        The records by the jobs' names.

    Raises:
        LaunchError: another launcher works in the folder, or a record there cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        for path, text in (files or {}).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return asyncio.run(_Launch(jobs, folder, limits, say).run())


@contextlib.contextmanager
def _alone(folder: pathlib.Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LaunchError(f"{folder}: another launcher works there") from error
        yield


class _Launch:
    def __init__(
        self, jobs: Sequence[Job], folder: pathlib.Path, limits: Limits, say: Callable[[str], None]
    ):
        self._jobs: Mapping[str, Job] = {job.name: job for job in jobs}
        self._folder, self._limits, self._say = folder, limits, say
        self._records = {job.name: Record.load(job, folder) for job in jobs}
        self._ended = {job.name: asyncio.Event() for job in jobs}
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._signals = 0
        self._places: asyncio.Queue[str] = asyncio.Queue()
        for cores in shared_cores(limits.parallel):
            self._places.put_nowait(cores)

    async def run(self) -> dict[str, Record]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signal)
        try:
            await asyncio.gather(*map(self._one, self._jobs.values()))
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        return self._records

    def _signal(self) -> None:
        self._signals += 1
        if self._signals == 1:
            self._say(
                f"stopping: {len(self._running)} running save and stop; once more kills them"
            )
            asyncio.get_running_loop().call_later(self._limits.grace, self._kill)
            for process in self._running.values():
                _terminate(process)
        else:
            self._kill()

    def _kill(self) -> None:
        for process in self._running.values():
            _kill_group(process.pid)

    async def _one(self, job: Job) -> None:
        record = self._records[job.name]
        try:
            if record.state != State.FINISHED and await self._may_start(job):
                cores = await self._places.get()
                try:
                    if not self._closed():
                        await self._to_its_end(job, record, cores)
                finally:
                    self._places.put_nowait(cores)
        finally:
            self._ended[job.name].set()

    async def _may_start(self, job: Job) -> bool:
        if job.after is None:
            return True
        await self._ended[job.after].wait()
        return self._records[job.after].state == State.FINISHED

    def _closed(self) -> bool:
        """Whether no further job may start."""
        failed = any(record.state == State.FAILED for record in self._records.values())
        return bool(self._signals) or (failed and not self._limits.keep_going)

    async def _to_its_end(self, job: Job, record: Record, cores: str) -> None:
        """Runs the job, again where it was preempted, and keeps its record up to date."""
        deadline = time.monotonic() + self._limits.hours * 3600
        for _ in range(self._limits.preemptions + 1):
            began = time.monotonic()
            record.state, record.code, record.starts = State.RUNNING, None, record.starts + 1
            record.save(job, self._folder)
            self._say(f"{job.name}: started, {job.path(self._folder, '.log')}")
            record.code = await self._attempt(job, cores, deadline)
            record.seconds += time.monotonic() - began
            record.state = self._judge(record.code)
            record.save(job, self._folder)
            self._say(f"{job.name}: {record.state}, {_reason(job, record.code)}")
            if record.state != State.PREEMPTED:
                break

    def _judge(self, code: int | None) -> State:
        if code == 0:
            return State.FINISHED
        if self._signals:
            return State.STOPPED
        return State.PREEMPTED if code == PREEMPTED else State.FAILED

    async def _attempt(self, job: Job, cores: str, deadline: float) -> int | None:
        """The exit code; None where the job had to be ended at the deadline."""
        with job.path(self._folder, ".log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, child.__file__, str(os.getpid()), cores, *job.command,
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._running[job.name] = process
        try:
            if self._signals:  # they came while the process was made
                _terminate(process)
            if self._signals > 1:
                _kill_group(process.pid)
            return await asyncio.wait_for(process.wait(), deadline - time.monotonic())
        except TimeoutError:
            await _end(process, self._limits.grace)
            return None
        finally:
            del self._running[job.name]
            _kill_group(process.pid)  # what it may have left behind


def _reason(job: Job, code: int | None) -> str:
    if code is not None:
        return f"exit code {code}"
    return f"no longer watched: {job.watches} runs on" if job.watches else "took too long"


def shared_cores(parallel: int) -> list[str]:
    """The cores of each of `parallel` jobs, "0,2"; empty where they need not be told apart."""
    if parallel == 1 or not hasattr(os, "sched_getaffinity"):
        return [""] * parallel
    cores = sorted(os.sched_getaffinity(0))
    groups = min(parallel, len(cores))
    shares = [",".join(map(str, cores[place::groups])) for place in range(groups)]
    return [shares[place % groups] for place in range(parallel)]


async def _end(process: asyncio.subprocess.Process, grace: float) -> None:
    _terminate(process)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), grace)
    _kill_group(process.pid)
    await process.wait()


def _terminate(process: asyncio.subprocess.Process) -> None:
    """Not `process.terminate()`, which may reap the process before its exit code was read."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
