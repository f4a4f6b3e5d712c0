"""Runs every unit here, as a process of its own."""

import pathlib
import sys
from collections.abc import Iterable

from launch.jobs import Job
from launch.plan import Plan, Request
from launch.units import Unit


def local_jobs(units: Iterable[Unit]) -> list[Job]:
    return [
        Job(unit.name, unit.command(sys.executable), unit.after, pathlib.Path(unit.workdir))
        for unit in units
    ]


def plan(request: Request) -> Plan:
    request.need_folder("local")
    return Plan(local_jobs(request.units))
