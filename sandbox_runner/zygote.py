"""The zygote: a process that has everything imported and forks one child per program.

It runs no untrusted code and talks to its pool over one SEQPACKET socket:

    pool -> zygote   b"F" id, with a socket as ancillary data: fork a child that serves it
                     b"S" id pid: how did this child end? (it is killed if it has not)
    zygote -> pool   b"R" report: ready, with the layers of confinement as JSON
                     b"F" id pid, with a pidfd;  b"S" id wait-status

Integers are 4 bytes, big-endian. When the pool's end is closed, or the pool's process is gone,
every child is killed and the zygote ends.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import types

import msgspec

from sandbox_runner import child, confine, namespace
from sandbox_runner.types import Limits

_TICK_MS = 1000
_UNKNOWN = -1


def main(control: int, owner: int, limits: str) -> None:
    """Serve the pool at file descriptor `control`, whose process is `owner`; never returns."""
    parsed = msgspec.json.decode(limits, type=Limits)
    os.closerange(max(control, 2) + 1, 1 << 16)
    confine.adopt_orphans()
    confine.leave_file_system()
    missing = confine.enter_namespaces()
    namespace.preload()
    namespace.warm_up()
    module = namespace.prepare_module()
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(control, owner, parsed, module, _probe(parsed, missing)).run()


def _probe(limits: Limits, namespaces_missing: str) -> confine.Report:
    """What a child that tries every layer reports; nothing when it could not say."""
    me = os.getpid()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            report = confine.probe(limits, me, namespaces_missing)
            os.write(writer, msgspec.json.encode(report))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        report = pipe.read()
    os.waitpid(pid, 0)
    return msgspec.json.decode(report or b"{}", type=confine.Report)


class Zygote:
    """Forks, reaps, and kills what is left of a child's process group once the child is gone."""

    def __init__(
        self, control: int, owner: int, limits: Limits, module: types.ModuleType,
        report: confine.Report,
    ) -> None:  # fmt: skip
        self._socket = socket.socket(fileno=control)
        self._owner = owner
        self._limits = limits
        self._module = module
        self._report = report
        self._alive: set[int] = set()
        self._ended: dict[int, int] = {}

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        self._socket.send(b"R" + msgspec.json.encode(self._report))
        while True:
            if poll.poll(_TICK_MS):
                data, descriptors, _, _ = socket.recv_fds(self._socket, 64, 1)
                if not data:
                    break
                self._serve(data, descriptors)
            elif os.getppid() != self._owner:
                break
            self._reap()
        for pid in self._alive:
            self._kill_group(pid)
        os._exit(0)

    def _serve(self, data: bytes, descriptors: list[int]) -> None:
        kind = data[:1]
        if kind == b"F":
            (request,) = struct.unpack(">I", data[1:])
            self._fork(request, descriptors[0])
        elif kind == b"S":
            request, pid = struct.unpack(">II", data[1:])
            status = self._end(pid)
            self._socket.send(b"S" + struct.pack(">Ii", request, status))

    def _fork(self, request: int, descriptor: int) -> None:
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_child(me, descriptor)
        os.close(descriptor)
        self._alive.add(pid)
        self._ended.pop(pid, None)
        pidfd = os.pidfd_open(pid)
        try:
            message = b"F" + struct.pack(">II", request, pid)
            socket.send_fds(self._socket, [message], [pidfd])
        finally:
            os.close(pidfd)

    def _become_child(self, zygote: int, descriptor: int) -> None:
        """Runs in the forked child and never comes back."""
        try:
            os.setpgid(0, 0)
            kept = confine.keep_only(descriptor)
            confine.confine(self._limits, zygote, self._report)
            gc.enable()
            child.serve(kept, self._limits, self._module)
        finally:
            os._exit(70)

    def _end(self, pid: int) -> int:
        if pid in self._alive:
            self._kill_group(pid)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            self._reap()
        return self._ended.get(pid, _UNKNOWN)

    def _reap(self) -> None:
        """Collect ended children. The group is killed first, while the pid cannot be reused."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            self._kill_group(ended.si_pid)
            pid, status = os.waitpid(ended.si_pid, 0)
            if pid in self._alive:
                self._alive.discard(pid)
                self._ended[pid] = status
                while len(self._ended) > 4096:
                    self._ended.pop(next(iter(self._ended)))
                self._kill_strays()

    def _kill_strays(self) -> None:
        """End adopted grandchildren that have left the group of the child that made them."""
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as listing:
                children = {int(pid) for pid in listing.read().split()}
        except FileNotFoundError:  # a kernel without this list
            return
        for pid in children - self._alive:
            os.kill(pid, signal.SIGKILL)

    @staticmethod
    def _kill_group(pid: int) -> None:
        for kill in (os.killpg, os.kill):
            try:
                kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
