"""What a process gives up with plain kernel calls: privileges, resources, descriptors."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import tempfile
from collections.abc import Iterator

from sandbox_runner.confine import syscalls
from sandbox_runner.types import Limits

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_PR_CAPBSET_DROP, _PR_SET_THP_DISABLE, _PR_CAP_AMBIENT = 24, 41, 47
_CAP_AMBIENT_CLEAR_ALL, _LAST_CAPABILITY = 4, 63
_CAPABILITY_HEADER = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, the calling process
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()
_FIRST_USER, _USERS, _NOBODY = 0x5ADE0000, 1 << 16, 65534


def die_with_parent(parent: int) -> None:
    """Be killed when the process that forked us ends; at once if it has already ended, unless that
    is outside of our namespace: then its number is 0 in any case."""
    syscalls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() not in (parent, 0):
        os._exit(1)


def no_large_pages() -> None:
    """One page fault, one page: so the faults of a process bound the memory that it takes."""
    syscalls.prctl(_PR_SET_THP_DISABLE, 1)


def no_new_privileges() -> None:
    syscalls.prctl(_PR_SET_NO_NEW_PRIVS, 1)


def not_dumpable() -> None:
    """No core file, and no process of the same user may read our memory."""
    syscalls.prctl(_PR_SET_DUMPABLE, 0)


def mapped_bytes(proc: int) -> int:
    """Address space of the calling process; `proc` is a descriptor of /proc."""
    statm = os.open("self/statm", os.O_RDONLY, dir_fd=proc)
    try:
        return int(os.read(statm, 200).split()[0]) * resource.getpagesize()
    finally:
        os.close(statm)


@contextlib.contextmanager
def first_victim(proc: int) -> Iterator[None]:
    """Whoever is forked inside stands first in line when the machine runs out of memory, and the
    caller does for that moment. `proc` as in `mapped_bytes`."""
    own = _swap_oom_score(proc, b"1000")
    try:
        yield
    finally:
        _swap_oom_score(proc, own)


def _swap_oom_score(proc: int, new: bytes) -> bytes:
    """The caller's score until now, which becomes `new` where the system allows it: no layer
    depends on it."""
    old = b"0"
    with contextlib.suppress(OSError):
        score = os.open("self/oom_score_adj", os.O_RDWR, dir_fd=proc)
        try:
            old = os.pread(score, 20, 0).strip()
            os.write(score, new)
        finally:
            os.close(score)
    return old


def leave_file_system() -> None:
    """Make the working directory one that no longer exists, so relative paths lead nowhere."""
    nowhere = tempfile.mkdtemp()
    os.chdir(nowhere)
    os.rmdir(nowhere)


def become_nobody(number: int) -> None:
    """Where the caller is root: a user of its own that owns nothing, number `number` of many, or
    the common nobody where only few users exist. None of them can signal or trace another's."""
    if os.geteuid() != 0:
        return
    os.setgroups([])
    for user in (_FIRST_USER + number % _USERS, _NOBODY):
        try:
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            return
        except OSError as error:
            failed = error
    raise failed


def drop_capabilities() -> None:
    """Every capability goes; `empty_bounding_set` is what keeps them from coming back by exec."""
    syscalls.prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
    syscalls.call("capset", ctypes.byref(_CAPABILITY_HEADER), ctypes.byref(_NO_CAPABILITIES))


def empty_bounding_set() -> None:
    """For the zygote: whatever it or a child of it executes gets no capability."""
    for capability in range(_LAST_CAPABILITY + 1):
        try:
            syscalls.prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            return  # beyond the last that this kernel knows, or not ours to drop


def limit_resources(limits: Limits, mapped: int) -> None:
    """Kernel limits on memory, CPU, files, processes and queued signals, which cannot be raised
    again. `mapped` is the address space that the preloaded modules take."""
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


def keep_only(descriptor: int, null: int) -> None:
    """Close every file descriptor but `descriptor`, which becomes 3; 0 to 2 become `null`."""
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    if descriptor != 3:
        os.dup2(descriptor, 3)
    os.closerange(4, 1 << 20)  # one system call, however many there are
