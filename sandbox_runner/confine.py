"""What a child gives up before it runs any untrusted line. One small function per layer."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import tempfile

from sandbox_runner.types import Limits

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl({option}): {os.strerror(code)}")


def die_with_parent(parent: int) -> None:
    """Be killed when the process that forked us ends; at once if it has already ended."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def adopt_orphans() -> None:
    """Make grandchildren whose parent ended our children, so that they can be ended too."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def leave_file_system() -> None:
    """Make the working directory one that no longer exists, so relative paths lead nowhere."""
    nowhere = tempfile.mkdtemp()
    os.chdir(nowhere)
    os.rmdir(nowhere)


def limit_resources(limits: Limits) -> None:
    """Kernel limits on memory, CPU, files and processes. They cannot be raised again."""
    with open("/proc/self/statm", "rb") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    cpu = int(limits.process_cpu)
    caps = {
        resource.RLIMIT_AS: mapped + limits.memory_bytes,
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: 0,  # the kernel does not apply this one to root
    }
    for kind, cap in caps.items():
        hard = resource.getrlimit(kind)[1]
        cap = cap if hard == resource.RLIM_INFINITY else min(cap, hard)
        resource.setrlimit(kind, (cap, cap))


def keep_only(descriptor: int) -> int:
    """Close every file descriptor but `descriptor`, which becomes 3; 0 to 2 lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    if descriptor != 3:
        os.dup2(descriptor, 3)
    os.closerange(4, max(1024, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    return 3


def confine(limits: Limits, parent: int) -> None:
    """Apply every layer, in an order in which none takes away what a later one needs."""
    die_with_parent(parent)
    no_new_privileges()
    limit_resources(limits)
