"""Namespaces of the zygote, inherited by every child: no network, no shared IPC, no host name, no
process but its own, and a root folder with nothing in it but what programs may read.

They are entered before the first fork. An ordinary user needs a user namespace for that, which some
systems forbid.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from sandbox_runner.confine import syscalls

_NEW_MOUNT, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_PID, _NEW_NET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
)  # fmt: skip
_NOSUID, _NODEV, _BIND, _RECURSIVE, _PRIVATE = 1 << 1, 1 << 2, 1 << 12, 1 << 14, 1 << 18
_DETACH = 2
_AT_HERE, _AT_RECURSIVE = -100, 0x8000
_LOCKED_DOWN = 0b1111  # read-only, no setuid, no devices, nothing executable
_MOUNTED_AT = "/proc"  # a folder that every Linux has and that no program should see
_INSTALLED = ("site-packages", "dist-packages")


class _Attributes(ctypes.Structure):
    _fields_ = [("set", ctypes.c_uint64), ("clear", ctypes.c_uint64),
                ("propagation", ctypes.c_uint64), ("user", ctypes.c_uint64)]  # fmt: skip


def enter() -> None:
    """Raises OSError where the system does not let this user do it.

    The caller stays where it is among the processes; the next process that it forks is the first
    of the new ones, and when that ends the kernel ends them all.
    """
    wanted = _NEW_MOUNT | _NEW_UTS | _NEW_IPC | _NEW_PID | _NEW_NET
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        try:
            syscalls.call("unshare", ctypes.c_ulong(wanted))
            return
        except PermissionError:
            pass  # root without its powers, as in many containers
    syscalls.call("unshare", ctypes.c_ulong(wanted | _NEW_USER))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def number_processes_by_chance() -> None:
    """Where the numbers of processes go on from in a new namespace: they would be the same in every
    one, and a program that draws on its own would look deterministic."""
    with contextlib.suppress(OSError):  # a kernel without it
        start = 1000 + int.from_bytes(os.urandom(2), "big") % 20_000
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(start))


def take_private_root(readable: Sequence[str]) -> None:
    """Leaves the machine's files for a root that holds the `readable` folders under their own
    names, read-only, without the packages that are installed inside of them.

    Raises OSError where that is not possible, without having left; a mount namespace of one's own
    is needed.
    """
    _mount(None, "/", None, _PRIVATE | _RECURSIVE)
    _mount("tmpfs", _MOUNTED_AT, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    try:
        for folder in sorted(readable):
            _show(folder)
        attributes = _Attributes(set=_LOCKED_DOWN)
        syscalls.call(
            "mount_setattr", ctypes.c_int(_AT_HERE), _MOUNTED_AT.encode(),
            ctypes.c_uint(_AT_RECURSIVE), ctypes.byref(attributes),
            ctypes.c_size_t(ctypes.sizeof(attributes)),
        )  # fmt: skip
        os.chdir(_MOUNTED_AT)
        syscalls.call("pivot_root", b".", b".")
    except OSError:
        os.chdir("/")
        syscalls.call("umount2", _MOUNTED_AT.encode(), ctypes.c_int(_DETACH))
        raise
    syscalls.call("umount2", b".", ctypes.c_int(_DETACH))  # the old root, which lies on top
    os.chdir("/")


def _show(folder: str) -> None:
    place = _MOUNTED_AT + folder
    os.makedirs(place, 0o755, exist_ok=True)
    _mount(folder, place, None, _BIND | _RECURSIVE)
    for name in _INSTALLED:
        if os.path.isdir(f"{place}/{name}"):
            _mount("tmpfs", f"{place}/{name}", "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    texts = [text if text is None else text.encode() for text in (source, target, kind, options)]
    syscalls.call("mount", *texts[:3], ctypes.c_ulong(flags), texts[3])
