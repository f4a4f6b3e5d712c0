"""The zygote: a process that has everything imported and forks one child per program.

It runs no untrusted code and talks to its pool over one SEQPACKET socket:

    pool -> zygote   b"F" request, with a socket as ancillary data: fork a child that serves it
                     b"S" request child: how did it end? (it is killed if it has not)
    zygote -> pool   b"R" report: ready, with the layers of confinement as JSON
                     b"F" request child, with a pidfd, or a negative number and none
                     b"S" request wait-status, or what `child_process.cause_of_death` takes for one

Integers are 4 bytes, big-endian; a child's number is its process id as the zygote sees it. When the
pool's end is closed every child is killed and the zygote ends.
"""

from __future__ import annotations

import gc
import os
import random
import select
import signal
import socket
import struct
import sys
import traceback
import types
import warnings

import msgspec
import numpy as np

from sandbox_runner import child, confine, namespace
from sandbox_runner.child_process import NOT_CONFINED
from sandbox_runner.types import Limits

_UNKNOWN = -1
NOT_FORKED = -1  # instead of a child's number


def serve(control: int, limits: Limits, namespaces_missing: str) -> None:
    """Serve the pool at file descriptor `control`; never returns.

    `namespaces_missing` is "" when this process is the first in namespaces of its own, else why it
    is not. Raises what goes wrong before it is ready, as a package that cannot be imported.
    """
    os.setpgid(0, 0)
    namespace.preload(limits.packages)
    namespace.warm_up()
    module = namespace.prepare_module(limits.packages)
    child.rehearse(limits, module)
    random.seed(0)
    np.random.seed(0)
    host, report = confine.settle(limits, namespaces_missing)
    os.environ.clear()
    sys.argv[:] = sys.orig_argv[:] = [""]
    warnings.simplefilter("ignore")
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(control, host, module, report).run()


def _told_of_dead_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


class Zygote:
    """Forks, reaps, and kills what is left of a child's process group once the child is gone."""

    def __init__(
        self, control: int, host: confine.Host, module: types.ModuleType, report: confine.Report
    ) -> None:
        self._socket = socket.socket(fileno=control)
        self._host = host
        self._module = module
        self._report = report
        self._alive: set[int] = set()
        self._ended: dict[int, int] = {}

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        deaths = _told_of_dead_children()
        poll.register(deaths, select.POLLIN)
        self._socket.send(b"R" + msgspec.json.encode(self._report))
        while True:
            ready = dict(poll.poll())
            if self._socket.fileno() in ready:
                data, descriptors, _, _ = socket.recv_fds(self._socket, 64, 1)
                if not data:
                    break
                self._serve(data, descriptors)
            if deaths in ready:
                os.read(deaths, 1 << 16)
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
        try:
            with confine.first_victim(self._host.proc):
                pid = os.fork()
                if pid == 0:
                    self._become_child(descriptor)
        except OSError:
            traceback.print_exc()
            self._socket.send(b"F" + struct.pack(">Ii", request, NOT_FORKED))
            return
        finally:
            os.close(descriptor)
        self._alive.add(pid)
        self._ended.pop(pid, None)
        pidfd = os.pidfd_open(pid)
        try:
            message = b"F" + struct.pack(">II", request, pid)
            socket.send_fds(self._socket, [message], [pidfd])
        finally:
            os.close(pidfd)

    def _become_child(self, descriptor: int) -> None:
        """Runs in the forked child and never comes back."""
        try:
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            newborn = confine.Newborn(self._host, os.getpid(), descriptor)
            try:
                confine.confine(newborn, self._report)
            except BaseException:
                os.setpgid(0, os.getpgid(self._host.zygote))  # tells it that no program was run
                traceback.print_exc()
                sys.stderr.flush()
                raise
            gc.enable()
            child.serve(child.CONNECTION, self._host.limits, self._module)
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
            confined = os.getpgid(ended.si_pid) == ended.si_pid
            self._kill_group(ended.si_pid)
            pid, status = os.waitpid(ended.si_pid, 0)
            if pid in self._alive:
                self._alive.discard(pid)
                self._ended[pid] = status if confined else NOT_CONFINED
                while len(self._ended) > 4096:
                    self._ended.pop(next(iter(self._ended)))

    @staticmethod
    def _kill_group(pid: int) -> None:
        for kill in (os.killpg, os.kill):
            try:
                kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
