"""System calls that no library wraps, and their numbers. Linux on x86-64 and on 64-bit ARM."""

from __future__ import annotations

import ctypes
import functools
import os
import platform

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

X86_64, ARM64 = "x86_64", "aarch64"

# Of the two tables a name may lack an entry where the architecture has no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "stat": (4, None), "fstat": (5, 80),
    "lstat": (6, None), "poll": (7, None), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "ioctl": (16, 29),
    "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66), "access": (21, None),
    "select": (23, None), "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233),
    "dup": (32, 23), "nanosleep": (35, 101), "getitimer": (36, 102), "alarm": (37, None),
    "setitimer": (38, 103), "getpid": (39, 172), "exit": (60, 93), "kill": (62, 129),
    "uname": (63, 160), "fcntl": (72, 25), "getcwd": (79, 17), "readlink": (89, None),
    "gettimeofday": (96, 169),
    "getrlimit": (97, 163), "getrusage": (98, 165), "sysinfo": (99, 179), "times": (100, 153),
    "getuid": (102, 174), "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177),
    "getppid": (110, 173), "sigaltstack": (131, 132), "gettid": (186, 178), "time": (201, None),
    "futex": (202, 98), "getdents64": (217, 61), "restart_syscall": (219, 128),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "exit_group": (231, 94), "tgkill": (234, 131), "openat": (257, 56), "newfstatat": (262, 79),
    "readlinkat": (267, 78), "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73),
    "set_robust_list": (273, 99), "prlimit64": (302, 261), "getrandom": (318, 278),
    "statx": (332, 291), "rseq": (334, 293), "clone3": (435, 435),
    "faccessat2": (439, 439), "open": (2, None), "sched_getaffinity": (204, 123),
    "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446), "seccomp": (317, 277), "capset": (126, 91),
    "unshare": (272, 97), "socket": (41, 198), "ptrace": (101, 117), "execve": (59, 221),
    "io_uring_setup": (425, 425), "memfd_create": (319, 279), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "mount_setattr": (442, 442),
}  # fmt: skip


class Unsupported(OSError):
    """This machine cannot do what was asked: its kernel or its architecture lacks it."""


def architecture() -> str:
    """Raises Unsupported for a machine that the tables do not know."""
    machine = platform.machine()
    if machine not in (X86_64, ARM64) or os.name != "posix":
        raise Unsupported(f"no table of system calls for {machine!r}")
    return machine


def number(name: str) -> int | None:
    """The number of a call on this machine; None where the architecture lacks it."""
    return NUMBERS[name][architecture() == ARM64]


_number_here = functools.cache(number)  # of the machine that this is, not one that a test plays


def call(name: str, *arguments: object) -> int:
    """Makes a system call. Raises OSError with the kernel's errno."""
    wanted = _number_here(name)
    if wanted is None:
        raise Unsupported(f"{name} does not exist on this architecture")
    result = _libc.syscall(ctypes.c_long(wanted), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def prctl(option: int, *values: int) -> int:
    """Raises OSError with the kernel's errno."""
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    result = _libc.prctl(option, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl({option}): {os.strerror(code)}")
    return result
