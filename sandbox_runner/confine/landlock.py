"""Landlock: files can be read below a few folders and nowhere else; nothing can be written, no TCP
used, and, where the kernel knows how, no signal leaves the process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from sandbox_runner.confine import syscalls

_VERSION_FLAG = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # ABI -> how many rights on files it knows
_BIND_AND_CONNECT = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_PATH_BENEATH = 1


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64),
                ("scoped", ctypes.c_uint64)]  # fmt: skip


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """The kernel's Landlock ABI. Raises OSError where it has none or it is off."""
    return syscalls.call(
        "landlock_create_ruleset", None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)
    )


def ruleset(readable: Iterable[str]) -> int:
    """A descriptor of rules by which files below the `readable` folders may be read and nothing
    else done; folders that do not exist are skipped.

    Raises OSError where the kernel has no Landlock.
    """
    abi = version()
    rules = _Ruleset((1 << _FILE_RIGHTS.get(abi, 16)) - 1)
    if abi >= 4:
        rules.network = _BIND_AND_CONNECT
    if abi >= 6:
        rules.scoped = _ABSTRACT_SOCKETS_AND_SIGNALS
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    made = syscalls.call(
        "landlock_create_ruleset", ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0)
    )
    for folder in readable:
        _allow_reading(made, folder)
    return made


def restrict(ruleset: int) -> None:
    """Puts the calling process, which must have given up new privileges, behind the rules."""
    syscalls.call("landlock_restrict_self", ctypes.c_int(ruleset), ctypes.c_uint32(0))


def _allow_reading(ruleset: int, folder: str) -> None:
    try:
        descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:
        return
    try:
        rule = _Beneath(_READ_FILE | _READ_DIR, descriptor)
        syscalls.call(
            "landlock_add_rule", ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH),
            ctypes.byref(rule), ctypes.c_uint32(0),
        )  # fmt: skip
    finally:
        os.close(descriptor)
