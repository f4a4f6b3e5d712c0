"""The allow-list of system calls. It is loaded last, and a child can never take it off again.

What a program needs for computing, reading its libraries and answering its pool is allowed; all
else fails with "operation not permitted", so that a program sees an error instead of dying without
a word. A call of another architecture, or of the x32 ABI, ends the process: nothing honest makes
one, and its numbers mean other things.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Sequence

from sandbox_runner.confine import syscalls

ALLOWED = (
    "access", "alarm", "brk", "close", "dup", "exit", "exit_group", "faccessat", "faccessat2",
    "fstat", "futex", "getcwd", "getdents64", "getegid", "geteuid", "getgid", "getitimer",
    "getpid", "getppid", "getrandom", "getrlimit", "getrusage", "gettid", "gettimeofday", "getuid",
    "lseek", "lstat", "mremap", "munmap", "nanosleep", "newfstatat", "poll", "ppoll",
    "pread64", "pselect6", "read", "readlink", "readlinkat", "readv", "restart_syscall", "rseq",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sched_yield", "select", "set_robust_list",
    "setitimer", "sigaltstack", "stat", "statx", "sysinfo", "time", "times", "uname", "write",
    "writev",
)  # fmt: skip

_ARCH = {syscalls.X86_64: 0xC000003E, syscalls.ARM64: 0xC00000B7}
_X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000

_PROT_EXEC = 4
_CLOCK_OF_ANOTHER = 1 << 31  # such clock ids, negative ones, name processes
_NEW_FILE = os.O_CREAT | (os.O_TMPFILE & ~os.O_DIRECTORY)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_APPEND | _NEW_FILE
_HARMLESS_ADVICE = [0, 1, 2, 3, 4, 8, 14, 15]  # how memory is used; not that a page is broken
_DESCRIPTOR_FLAGS = [0, 1, 2, 3, 1030]  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC

_SET_MODE_FILTER = 1
_NOBODY = 0x7FFFFFFE  # stands in an unfinished program for the number of its process

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


class _Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte),
                ("k", ctypes.c_uint32)]  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Filter))]


def program(pid: int) -> list[Instruction]:
    """The filter for the process `pid`, which may signal itself and nobody else."""
    if sys.byteorder != "little":
        raise syscalls.Unsupported("the filter reads arguments of little-endian machines")
    allow, refuse = [(_RETURN, 0, 0, _ALLOW)], _fail(errno.EPERM)
    code = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 1, 0, _ARCH[syscalls.architecture()]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
    ]
    for name in ALLOWED:
        code += _on(name, allow)
    for name in ("mmap", "mprotect"):
        code += _on(name, _unless_any_bit(2, _PROT_EXEC))
    code += _on("openat", _unless_any_bit(2, _WRITING))
    code += _on("open", _unless_any_bit(1, _WRITING))
    for name in ("kill", "tgkill"):
        code += _on(name, _if_argument(0, [pid]))
    code += _on("madvise", _if_argument(2, _HARMLESS_ADVICE))
    code += _on("fcntl", _if_argument(1, _DESCRIPTOR_FLAGS))
    code += _on("prlimit64", _if_argument(0, [0, pid], then=_if_null(2)))
    code += _on("sched_getaffinity", _if_argument(0, [0, pid]))
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        code += _on(name, _unless_any_bit(0, _CLOCK_OF_ANOTHER))
    code += _on("ioctl", _fail(errno.ENOTTY))
    code += _on("clone3", _fail(errno.ENOSYS))  # glibc then tries clone, which is refused
    return code + refuse


class Filter:
    """The program for a process whose number is not known yet. A zygote assembles it once, so that
    all its children share the memory and none has to do it again.

    Raises Unsupported where the machine is not one that the filter was written for.
    """

    def __init__(self) -> None:
        instructions = program(_NOBODY)
        self._table = (_Filter * len(instructions))(*instructions)
        self._loaded = _Program(len(instructions), self._table)
        self._itself = [at for at, code in enumerate(instructions) if code[3] == _NOBODY]

    def install(self) -> None:
        """Puts the calling process, which must have given up new privileges, behind the filter.

        Raises OSError when the kernel cannot do it.
        """
        pid = os.getpid()
        for at in self._itself:
            self._table[at].k = pid
        mode, no_flags = ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(0)
        syscalls.call("seccomp", mode, no_flags, ctypes.byref(self._loaded))


def _on(name: str, then: list[Instruction]) -> list[Instruction]:
    """`then`, which must return, if the loaded number is that of `name`."""
    number = syscalls.number(name)
    return [] if number is None else [(_EQUAL, 0, len(then), number), *then]


def _fail(code: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, _ERRNO | code)]


def _low(argument: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)


def _high(argument: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument + 4)


def _unless_any_bit(argument: int, bits: int) -> list[Instruction]:
    """Allowed unless the lower half of the argument, all that the kernel reads, has such a bit."""
    return [_low(argument), (_ANY_BIT, 1, 0, bits), (_RETURN, 0, 0, _ALLOW), *_fail(errno.EPERM)]


def _if_argument(
    argument: int, values: list[int], then: Sequence[Instruction] = ((_RETURN, 0, 0, _ALLOW),)
) -> list[Instruction]:
    """`then`, which must return, when the lower half is one of `values`."""
    tests = [(_EQUAL, len(values) - 1 - i, 0, value) for i, value in enumerate(values)]
    tests[-1] = (_EQUAL, 0, len(then), values[-1])
    return [_low(argument), *tests, *then, *_fail(errno.EPERM)]


def _if_null(argument: int) -> list[Instruction]:
    """Allowed when the pointer is null."""
    return [
        _low(argument), (_EQUAL, 0, 3, 0), _high(argument), (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW), *_fail(errno.EPERM),
    ]  # fmt: skip
