"""The layers in their order, and a probe for each that must fail once the layer is on.

A layer that the host lacks is skipped and reported. What is left must not be less than `REQUIRED`,
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
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sandbox_runner.confine import landlock, namespaces, process, seccomp, syscalls
from sandbox_runner.types import ConfinementError, Limits

PACKAGES = (
    "numpy", "math_verify", "latex2sympy2_extended", "sympy", "mpmath", "antlr4", "msgspec",
)  # fmt: skip
REQUIRED = (("limits",), ("no_new_privileges",), ("private_root", "landlock"), ("seccomp",))
ALLOWABLE = tuple(name for group in REQUIRED for name in group)  # to be missing, by name

T = TypeVar("T")
Report = dict[str, str]  # layer -> "" when it holds, else why it does not


@dataclass(frozen=True)
class Host:
    """What the layers of a child need, made once by the zygote that will fork them all.

    `is_root` and `zygote`, its number, are the zygote's own. `proc` and `null` are descriptors of
    the machine's /proc and /dev/null, which a private root does not have; `rules` is Landlock's and
    `calls` the filter of system calls, or why there is none; `mapped` is how many bytes of address
    space the zygote takes.
    """

    limits: Limits
    is_root: bool
    zygote: int
    proc: int
    null: int
    rules: int | OSError
    calls: seccomp.Filter | OSError
    mapped: int


@dataclass(frozen=True)
class Newborn:
    """A child that is about to be confined: its number, and the descriptor of its connection."""

    host: Host
    number: int
    connection: int


@dataclass(frozen=True)
class Layer:
    """`apply` raises OSError where the host lacks it; `holds` tries what must now fail."""

    name: str
    apply: Callable[[Newborn], None]
    holds: Callable[[Newborn], bool]


def _refused(attempt: Callable[[], object], *codes: int) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno in codes
    return False


def _another_user(child: Newborn) -> bool:
    os.close(os.open(os.__file__, os.O_RDONLY))  # what it must read is still there for it
    return os.getuid() != 0 and _refused(lambda: os.setuid(0), errno.EPERM, errno.EINVAL)


def _powerless(child: Newborn) -> bool:
    return _refused(lambda: os.chroot("/"), errno.EPERM)


def _no_new_privileges_set(child: Newborn) -> bool:
    return syscalls.prctl(39) == 1


def _parent_death_set(child: Newborn) -> bool:
    number = ctypes.c_int()
    syscalls.prctl(2, ctypes.addressof(number))
    return number.value == signal.SIGKILL


def _only_modules_are_open(child: Newborn) -> bool:
    os.close(os.open(os.__file__, os.O_RDONLY))
    closed = ("/", "/etc/passwd", sys.executable)
    refusals = errno.EACCES, errno.ENOENT
    return all(_refused(lambda p=path: os.open(p, os.O_RDONLY), *refusals) for path in closed)


def _only_the_connection_is_open(child: Newborn) -> bool:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return all(_refused(lambda n=n: os.fstat(n), errno.EBADF) for n in range(4, min(most, 4096)))


def _cannot_allocate(child: Newborn) -> bool:
    limits = child.host.limits
    try:
        bytearray(limits.memory_bytes + (64 << 20))
    except MemoryError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[1] <= limits.open_files
    return False


def _no_sockets_no_processes(child: Newborn) -> bool:
    return (
        _refused(lambda: socket.socket(socket.AF_UNIX), errno.EPERM)
        and _refused(lambda: os.kill(child.host.zygote, 0), errno.EPERM)
        and _refused(os.fork, errno.EPERM)
    )


def _drop_capabilities(child: Newborn) -> None:
    """Root's go with root; what is left to do costs memory in every child."""
    if not (child.host.is_root and os.getuid()):
        process.drop_capabilities()


LAYERS = (
    Layer("user", lambda c: process.become_nobody(c.number), _another_user),
    Layer("capabilities", _drop_capabilities, _powerless),
    Layer("no_new_privileges", lambda c: process.no_new_privileges(), _no_new_privileges_set),
    Layer("parent_death", lambda c: process.die_with_parent(c.host.zygote), _parent_death_set),
    Layer("not_dumpable", lambda c: process.not_dumpable(), lambda c: syscalls.prctl(3) == 0),
    Layer("landlock", lambda c: landlock.restrict(_had(c.host.rules)), _only_modules_are_open),
    Layer(
        "descriptors",
        lambda c: process.keep_only(c.connection, c.host.null),
        _only_the_connection_is_open,
    ),
    Layer(
        "limits",
        lambda c: process.limit_resources(c.host.limits, c.host.mapped),
        _cannot_allocate,
    ),
    Layer("seccomp", lambda c: _had(c.host.calls).install(), _no_sockets_no_processes),
)


def _had(made: Any) -> Any:
    """What the zygote made, or why it could not."""
    if isinstance(made, OSError):
        raise made
    return made


def readable_folders(packages: tuple[str, ...] = ()) -> list[str]:
    """The standard library and the packages that programs may import: all that they may read.

    Not `sys.path`, which also holds the folder of the caller's script.
    """
    paths = sysconfig.get_paths()
    folders = {paths["stdlib"], paths["platstdlib"], os.path.dirname(os.path.dirname(__file__))}
    for package in PACKAGES + packages:
        found = importlib.util.find_spec(package)
        for folder in (found and found.submodule_search_locations) or ():
            folders |= {folder, f"{folder}.libs"}
    return sorted(os.path.realpath(folder) for folder in folders if os.path.isdir(folder))


def enter_namespaces() -> str:
    """"" or why the host does not allow it. What this process forks from now on lives in them."""
    try:
        namespaces.enter()
    except OSError as error:
        return str(error)
    return ""


def settle(limits: Limits, namespaces_missing: str) -> tuple[Host, Report]:
    """For a zygote that has imported everything: leaves the machine's files behind and finds out,
    in children that try them, which layers this host has."""
    readable = readable_folders(limits.packages)
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    root_missing = namespaces_missing
    if not namespaces_missing:
        namespaces.number_processes_by_chance()
        try:
            namespaces.take_private_root(readable)
        except OSError as error:
            root_missing = str(error)
    if root_missing:
        process.leave_file_system()
    rules = _attempt(lambda: landlock.ruleset(readable))
    calls = _attempt(seccomp.Filter)
    process.empty_bounding_set()
    process.no_large_pages()
    host = Host(
        limits, os.getuid() == 0, os.getpid(), proc, null, rules, calls, process.mapped_bytes(proc)
    )  # fmt: skip
    known = {"namespaces": namespaces_missing, "private_root": root_missing}
    return host, _probe(host, known)


def _attempt(make: Callable[[], T]) -> T | OSError:
    try:
        return make()
    except OSError as error:
        return error


def confine(child: Newborn, report: Report) -> None:
    """Every layer that `settle` found to hold, in order, in the process that calls.

    Raises OSError when one of them cannot be put on now: the process must not run a program then.
    """
    for layer in LAYERS:
        if not report.get(layer.name, "not tried"):
            layer.apply(child)


def _probe(host: Host, known: Report) -> Report:
    """Tries the layers in children made for this, each time without those that did not hold."""
    report = dict(known)
    while True:
        found = _try_in_a_child(host, report)
        report |= found
        if not any(found.values()):
            return report


def _try_in_a_child(host: Host, report: Report) -> Report:
    """What holds, up to and including the first layer that does not."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            _try(Newborn(host, 0, theirs.detach()), report)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    theirs.close()
    with ours, ours.makefile("r") as lines:
        told = [line.rstrip("\n").partition("\t") for line in lines]
    os.waitpid(pid, 0)
    found = {name: reason for name, _, reason in told}
    for layer in LAYERS:
        if layer.name not in found and not report.get(layer.name) and not any(found.values()):
            found[layer.name] = "the process that tried it ended"
    return found


def _try(child: Newborn, report: Report) -> None:
    """Tells one line per layer: its name, a tab, and why it does not hold."""
    connection = child.connection

    def tell(name: str, reason: str) -> None:
        os.write(connection, f"{name}\t{' '.join(reason.split())}\n".encode())

    for name, holds in (("namespaces", _no_network), ("private_root", _bare_root)):
        if not report[name] and not holds():
            tell(name, "not in force")
            return
    for layer in LAYERS:
        if report.get(layer.name):
            continue
        try:
            layer.apply(child)
            if layer.name == "descriptors":
                connection = 3
            reason = "" if layer.holds(child) else "not in force"
        except (OSError, ValueError) as error:
            reason = str(error)
        tell(layer.name, reason)
        if reason:
            return


def _no_network() -> bool:
    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))

    return _refused(send, errno.ENETUNREACH)


def _bare_root() -> bool:
    os.close(os.open(os.__file__, os.O_RDONLY))
    gone = all(not os.path.exists(path) for path in ("/proc/self", "/etc/passwd", sys.executable))
    return gone and _refused(lambda: os.mkdir("/new"), errno.EROFS)


def unmet(report: Report) -> list[tuple[str, ...]]:
    """The alternatives of `REQUIRED` of which this host has none."""
    return [group for group in REQUIRED if all(report.get(n, "not tried") for n in group)]


def insist(report: Report, allowed_missing: tuple[str, ...]) -> None:
    """Raises ConfinementError when something required is missing that is not allowed to be."""
    refused = [group for group in unmet(report) if not set(group) & set(allowed_missing)]
    if refused:
        names = [name for group in refused for name in group]
        reasons = "; ".join(f"{name}: {report.get(name, 'not tried')}" for name in names)
        raise ConfinementError(
            f"this host cannot contain untrusted programs ({reasons}); to run all the same, name"
            f" the layers in Limits.allow_missing={tuple(group[0] for group in refused)}"
        )
