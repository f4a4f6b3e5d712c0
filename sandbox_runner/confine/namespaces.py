"""Namespaces of the zygote, inherited by every child: no network, no shared IPC, no host name.

They are entered before the first fork. An ordinary user needs a user namespace for that, which some
systems forbid.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from sandbox_runner.confine import syscalls

_NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_NET = 0x04000000, 0x08000000, 0x10000000, 0x40000000


def enter() -> None:
    """Raises OSError where the system does not let this user do it."""
    wanted = _NEW_NET | _NEW_IPC | _NEW_UTS
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
