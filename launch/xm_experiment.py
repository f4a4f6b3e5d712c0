"""python -m launch.xm_experiment FILE: runs the units that the backend `xm` wrote to FILE."""

import asyncio
import json
import os
import pathlib
import sys

from absl import app, logging
from xmanager import xm, xm_local

from launch import child

SHELL_TRUE = "/bin/true"  # the program that XManager sees; what it is to run comes after it


class _Experiment:
    """Where it dies, its runs get SIGTERM: they save and end by themselves."""

    def __init__(self, title: str, parallel: int, units: list[dict]):
        self._title, self._units = title, units
        self._places = asyncio.Semaphore(parallel)
        self._ended = {unit["name"]: asyncio.Event() for unit in units}
        self._unfinished = {unit["name"] for unit in units}

    async def run(self) -> int:
        """Exit code: 0 where every unit has finished."""
        try:
            async with xm_local.create_experiment(self._title) as experiment:
                spec = xm.Packageable(xm.Binary(path=SHELL_TRUE), xm_local.Local.Spec())
                [executable] = experiment.package([spec])
                await asyncio.gather(*(self._one(experiment, executable, u) for u in self._units))
        except RuntimeError:  # as it closes, XManager raises what a failed unit raised before
            if not self._unfinished:
                raise
        for name in sorted(self._unfinished):
            print(f"{name}: not finished")
        return int(bool(self._unfinished))

    async def _one(self, experiment: xm.Experiment, executable: xm.Executable, unit: dict) -> None:
        try:
            if unit["after"] is not None:
                await self._ended[unit["after"]].wait()
            if unit["after"] not in self._unfinished:
                async with self._places:
                    await self._execute(experiment, executable, unit)
        finally:
            self._ended[unit["name"]].set()

    async def _execute(
        self, experiment: xm.Experiment, executable: xm.Executable, unit: dict
    ) -> None:
        # XManager starts a shell, which would keep signals to itself: exec gives the run its place.
        start = (xm.ShellSafeArg("&& exec"), sys.executable, child.__file__, str(os.getpid()), "")
        job = xm.Job(
            executable, xm_local.Local(), name=unit["name"], args=[*start, *unit["command"]]
        )
        try:
            await (await experiment.add(job)).wait_until_complete()
            self._unfinished.remove(unit["name"])
        except xm.ExperimentUnitError as error:
            print(f"{unit['name']}: {error}")


def main(argv: list[str]) -> int:
    logging.set_verbosity(logging.WARNING)  # XManager's database narrates at INFO
    experiment = json.loads(pathlib.Path(argv[1]).read_text())
    return asyncio.run(_Experiment(**experiment).run())


if __name__ == "__main__":
    app.run(main)  # XManager has flags of its own
