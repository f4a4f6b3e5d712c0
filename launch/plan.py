"""What a backend is given, and what it makes of it: files and jobs."""

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from launch.bucket import bucket_name
from launch.clusters import Cluster
from launch.errors import LaunchError
from launch.jobs import Job
from launch.units import Unit


@dataclasses.dataclass(frozen=True)
class Request:
    """Attributes:
    units: the runs.
    workdir: of the sweep, a folder or a `gs://` path.
    folder: here: rendered files, logs, records.
    cluster: where runs go that are not run here.
    failures: how often a run that failed on its pod is started again there.
    parallel: most units at once.
    poll: seconds between two looks at a run elsewhere.
    """

    units: Sequence[Unit]
    workdir: str
    folder: pathlib.Path
    cluster: Cluster
    failures: int
    parallel: int
    poll: float = 60.0

    @property
    def label(self) -> str:
        """What all of the sweep's resources are marked with."""
        last = self.workdir.rstrip("/").rpartition("/")[2].lower()
        return re.sub(r"[^a-z0-9]+", "-", last)[:60].strip("-")

    def need_folder(self, backend: str) -> None:
        if "://" in self.workdir:
            raise LaunchError(f"--workdir={self.workdir}: {backend} runs here; expected a folder")

    def need_bucket(self, backend: str) -> None:
        if bucket_name(self.workdir) is None:
            raise LaunchError(
                f"--workdir={self.workdir}: {backend} runs elsewhere; expected gs://BUCKET/FOLDER"
            )


@dataclasses.dataclass(frozen=True)
class Plan:
    """Attributes:
    jobs: the commands to run here, one per unit or one for all.
    files: path -> content, written before the jobs start.
    programs: what must be installed here.
    """

    jobs: Sequence[Job]
    files: Mapping[pathlib.Path, str] = dataclasses.field(default_factory=dict)
    programs: Sequence[str] = ()

    def shown(self) -> str:
        """Every file and every command, for a person."""
        files = [f"==> {path}\n{text}\n" for path, text in self.files.items()]
        commands = [
            f"==> {job.name}{f', after {job.after}' if job.after else ''}\n"
            f"{shlex.join(job.command)}\n"
            for job in self.jobs
        ]
        return "".join((*files, *commands))


Backend = Callable[[Request], Plan]
