"""The layers in their order, and a probe for each that must fail once the layer is on.

A layer that the host lacks is skipped and reported. What is left must not be less than `MINIMUM`,
unless the missing ones are allowed by name: the pool sees to that.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.util
import os
import resource
import signal
import socket
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass

from sandbox_runner.confine import landlock, namespaces, process, seccomp, syscalls
from sandbox_runner.types import Limits, RunnerError

PACKAGES = (
    "numpy", "math_verify", "latex2sympy2_extended", "sympy", "mpmath", "antlr4", "msgspec",
)  # fmt: skip
MINIMUM = ("limits", "no_new_privileges", "landlock", "seccomp")

Report = dict[str, str]  # layer -> "" when it holds, else why it does not


@dataclass(frozen=True)
class Host:
    """What the layers of a child depend on. `parent` is the process that forked it."""

    limits: Limits
    parent: int


@dataclass(frozen=True)
class Layer:
    """`apply` raises OSError where the host lacks it; `holds` tries what must now fail."""

    name: str
    apply: Callable[[Host], None]
    holds: Callable[[Host], bool]


def _refused(attempt: Callable[[], object], *codes: int) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno in codes
    return False


def _cannot_allocate(host: Host) -> bool:
    try:
        bytearray(host.limits.memory_bytes + (64 << 20))
    except MemoryError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[1] <= host.limits.open_files
    return False


def _no_new_privileges_set(host: Host) -> bool:
    return syscalls.prctl(39) == 1


def _parent_death_set(host: Host) -> bool:
    number = ctypes.c_int()
    syscalls.prctl(2, ctypes.addressof(number))
    return number.value == signal.SIGKILL


def _powerless(host: Host) -> bool:
    return _refused(lambda: os.chroot("/"), errno.EPERM)


def _only_modules_are_open(host: Host) -> bool:
    os.close(os.open(os.__file__, os.O_RDONLY))
    closed = ("/", "/etc/passwd", sys.executable)
    return all(_refused(lambda p=path: os.open(p, os.O_RDONLY), errno.EACCES) for path in closed)


def _no_sockets_no_processes(host: Host) -> bool:
    return (
        _refused(lambda: socket.socket(socket.AF_UNIX), errno.EPERM)
        and _refused(lambda: os.kill(host.parent, 0), errno.EPERM)
        and _refused(os.fork, errno.EPERM)
    )


def _no_network(host: Host) -> bool:
    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))

    return _refused(send, errno.ENETUNREACH)


LAYERS = (
    Layer("parent_death", lambda host: process.die_with_parent(host.parent), _parent_death_set),
    Layer("no_new_privileges", lambda host: process.no_new_privileges(), _no_new_privileges_set),
    Layer("not_dumpable", lambda host: process.not_dumpable(), lambda host: syscalls.prctl(3) == 0),
    Layer("limits", lambda host: process.limit_resources(host.limits), _cannot_allocate),
    Layer("capabilities", lambda host: process.drop_capabilities(), _powerless),
    Layer("landlock", lambda host: landlock.restrict(readable_folders()), _only_modules_are_open),
    Layer("seccomp", lambda host: seccomp.install(), _no_sockets_no_processes),
)


def readable_folders() -> list[str]:
    """The standard library and the packages that programs may import: all that they may read.

    Not `sys.path`, which also holds the folder of the caller's script.
    """
    paths = sysconfig.get_paths()
    folders = {paths["stdlib"], paths["platstdlib"], os.path.dirname(os.path.dirname(__file__))}
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        for folder in (found and found.submodule_search_locations) or ():
            folders |= {folder, f"{folder}.libs"}
    return sorted(os.path.realpath(folder) for folder in folders if os.path.isdir(folder))


def enter_namespaces() -> str:
    """For the zygote, before it forks: "" or why the host does not allow it."""
    try:
        namespaces.enter()
    except OSError as error:
        return str(error)
    return ""


def confine(limits: Limits, parent: int, report: Report) -> None:
    """Every layer that `probe` found to hold, in order, in the process that calls.

    Raises OSError when one of them cannot be put on now: the process must not run a program then.
    """
    host = Host(limits, parent)
    for layer in LAYERS:
        if not report.get(layer.name, "not tried"):
            layer.apply(host)


def probe(limits: Limits, parent: int, namespaces_missing: str) -> Report:
    """Applies every layer to the calling process, a child made for this, and tries each of them."""
    host = Host(limits, parent)
    report = {"namespaces": namespaces_missing or ("" if _no_network(host) else "not in force")}
    for layer in LAYERS:
        try:
            layer.apply(host)
            report[layer.name] = "" if layer.holds(host) else "not in force"
        except (OSError, ValueError) as error:
            report[layer.name] = str(error)
    return report


def insist(report: Report, allowed_missing: tuple[str, ...]) -> None:
    """Raises RunnerError when a layer of the minimum is missing and not allowed to be."""
    missing = [name for name in MINIMUM if report.get(name, "not tried")]
    if refused := [name for name in missing if name not in allowed_missing]:
        reasons = "; ".join(f"{name}: {report.get(name, 'not tried')}" for name in refused)
        raise RunnerError(
            f"this host cannot contain untrusted programs ({reasons}); to run all the same, name"
            f" the layers in Limits.allow_missing={tuple(refused)}"
        )
