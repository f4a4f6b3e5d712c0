"""Runs a command as on another host: as an ordinary user, or where namespaces are forbidden.

    python hosts.py [--ordinary] [--no-namespaces] -- COMMAND...

Only root can do that. It uses nothing of the sandbox but its table of system calls.
"""

import argparse
import ctypes
import os
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORDINARY = 12345  # the number of a user that owns nothing
NEW_MOUNT, PRIVATE, BIND, RECURSIVE = 0x00020000, 1 << 18, 1 << 12, 1 << 14
libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def mount(source, target, kind, flags, options=None):
    texts = [text if text is None else str(text).encode() for text in (source, target, kind)]
    checked(libc.mount(*texts, ctypes.c_ulong(flags), options))


def open_the_way(*needed):
    """In mounts of our own: makes `needed` folders reachable for everybody. A folder above them
    that is closed is replaced by one that holds nothing but them."""
    checked(libc.unshare(NEW_MOUNT))
    mount(None, "/", None, PRIVATE | RECURSIVE)
    for place in needed:
        place = Path(place).resolve()
        closed = next((p for p in reversed(place.parents) if not p.stat().st_mode & 1), None)
        if closed is None:
            continue
        inside = [p for p in map(Path, needed) if closed in p.resolve().parents]
        held = [(p.resolve(), os.open(p, os.O_PATH)) for p in inside]
        mount("tmpfs", closed, "tmpfs", 0, b"mode=755")
        for path, descriptor in held:
            path.mkdir(parents=True, exist_ok=True)
            mount(f"/proc/self/fd/{descriptor}", path, None, BIND | RECURSIVE)


def forbid_namespaces():
    """As container engines do: `unshare` fails with "operation not permitted"."""
    sys.path.insert(0, str(ROOT))
    from sandbox_runner.confine import syscalls

    code = [
        (0x20, 0, 0, 0), (0x15, 0, 1, syscalls.number("unshare")),
        (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000),
    ]  # fmt: skip
    table = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(table)))
    syscalls.prctl(38, 1)
    syscalls.call("seccomp", ctypes.c_uint(1), ctypes.c_uint(0), program)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ordinary", action="store_true")
    parser.add_argument("--no-namespaces", action="store_true")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if options.ordinary:
        open_the_way(sys.base_prefix, sys.prefix, ROOT)
        os.chdir("/")
        os.setgroups([])
        os.setresgid(ORDINARY, ORDINARY, ORDINARY)
        os.setresuid(ORDINARY, ORDINARY, ORDINARY)
    if options.no_namespaces:
        forbid_namespaces()
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["HOME"] = "/nonexistent"
    os.execv(options.command[0], options.command)


if __name__ == "__main__":
    main()
