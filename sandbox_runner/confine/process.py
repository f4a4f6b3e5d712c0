"""What a process gives up with plain kernel calls: privileges, resources, descriptors."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import tempfile

from sandbox_runner.confine import syscalls
from sandbox_runner.types import Limits

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_CAP_AMBIENT = 24, 36, 47
_CAP_AMBIENT_CLEAR_ALL, _LAST_CAPABILITY = 4, 63
_CAPABILITY_VERSION_3 = 0x20080522


def die_with_parent(parent: int) -> None:
    """Be killed when the process that forked us ends; at once if it has already ended."""
    syscalls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def no_new_privileges() -> None:
    syscalls.prctl(_PR_SET_NO_NEW_PRIVS, 1)


def not_dumpable() -> None:
    """No core file, and no process of the same user may read our memory."""
    syscalls.prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Make grandchildren whose parent ended our children, so that they can be ended too."""
    syscalls.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def leave_file_system() -> None:
    """Make the working directory one that no longer exists, so relative paths lead nowhere."""
    nowhere = tempfile.mkdtemp()
    os.chdir(nowhere)
    os.rmdir(nowhere)


def drop_capabilities() -> None:
    """Root without its powers: every capability goes, now and for whatever would be executed."""
    if os.geteuid() == 0:
        for capability in range(_LAST_CAPABILITY + 1):
            try:
                syscalls.prctl(_PR_CAPBSET_DROP, capability)
            except OSError:
                break  # beyond the last that this kernel knows
        os.setgroups([])
    syscalls.prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    syscalls.call("capset", ctypes.byref(header), ctypes.byref(nothing))


def limit_resources(limits: Limits) -> None:
    """Kernel limits on memory, CPU, files, processes and queued signals, which cannot be raised
    again; and the first place in line when the machine itself runs out of memory."""
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    with open("/proc/self/statm", "rb") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    cpu = int(limits.process_cpu)
    caps = {
        resource.RLIMIT_AS: mapped + limits.memory_bytes,
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_SIGPENDING: 0,
        resource.RLIMIT_NPROC: 0,  # the kernel does not apply this one to root; seccomp does
    }
    for kind, cap in caps.items():
        hard = resource.getrlimit(kind)[1]
        cap = cap if hard == resource.RLIM_INFINITY else min(cap, hard)
        soft = cap - 1 if kind == resource.RLIMIT_CPU and cap > 1 else cap  # first SIGXCPU
        resource.setrlimit(kind, (soft, cap))


def keep_only(descriptor: int) -> int:
    """Close every file descriptor but `descriptor`, which becomes 3; 0 to 2 lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    if descriptor != 3:
        os.dup2(descriptor, 3)
    os.closerange(4, max(1024, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    return 3
