"""Joins this process to the others of a run, before anything touches a device.

JAX's coordination service finds the processes, and its key-value store carries small messages, so
also what became of them. The service lives in process 0; where that is killed, JAX ends the others.
"""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator

import jax
from jax._src.distributed import global_state
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from spade_jax.parallel.hosts import Group, HostError, Hosts

GRACE = 5.0  # seconds for a process to stop by itself once another one has failed
LATER = 60  # seconds after us that JAX misses a process, and aborts the others


class ClusterError(HostError):
    """The settings fit neither each other nor the cluster."""


@contextlib.contextmanager
def joined(
    section: ConfigDict, exit_code: Callable[[BaseException], int] = lambda error: 1
) -> Iterator[Hosts]:
    """The processes of `config.distributed`; one alone when it is not enabled.

    If they do not find each other in time, the process ends with exit code 1, and says so.

    Args:
        exit_code: of an exception inside. All processes end with the code of the first one.

    Raises:
        ClusterError: the settings fit neither each other nor the cluster.
        HostError: the cluster does not take this process.
    """
    if not section.enabled:
        yield Hosts()
        return
    _initialize(section)
    group = Group(
        _Coordinator(), jax.process_index(), jax.process_count(), section.timeout_s,
        multihost_utils.process_allgather,
    )  # fmt: skip
    try:
        with group.together(section.heartbeat_s, GRACE, _end, exit_code):
            group.all("start", None)
            yield group
            group.all("end", None)
    except BaseException:
        atexit.register(_leave, group)
        raise
    jax.distributed.shutdown()


def _initialize(section: ConfigDict) -> None:
    # The run has its own way to stop after a signal.
    jax.config.update("jax_enable_preemption_service", False)
    given = (
        f"distributed.coordinator={section.coordinator!r}, num_processes={section.num_processes},"
        f" process_id={section.process_id}"
    )
    late = f"not all processes came within distributed.start_s={section.start_s}: {given}"
    timer = threading.Timer(section.start_s, _end, [late])
    timer.daemon = True
    timer.start()
    try:
        jax.distributed.initialize(
            section.coordinator or None,
            section.num_processes if section.num_processes >= 0 else None,
            section.process_id if section.process_id >= 0 else None,
            initialization_timeout=section.start_s + LATER,
            heartbeat_timeout_seconds=section.heartbeat_s + LATER,
            shutdown_timeout_seconds=LATER,
        )
    except ValueError as error:
        raise ClusterError(f"{given}: {error}") from error
    except RuntimeError as error:
        raise HostError(f"{given}: {error}") from error
    finally:
        timer.cancel()


class _Coordinator:
    """The coordination service's key-value store, which JAX has no public name for."""

    def __init__(self):
        self._client = global_state.client

    def put(self, key: str, value: bytes, replace: bool = False) -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # there, or lost: `get` says it
            self._client.key_value_set_bytes(key, value, replace)

    def get(self, key: str, seconds: float) -> bytes | None:
        try:
            return self._client.blocking_key_value_get_bytes(key, max(1, int(1000 * seconds)))
        except jax.errors.JaxRuntimeError as error:
            if str(error).startswith("DEADLINE_EXCEEDED"):
                return None
            raise HostError(f"the coordinator, process 0, is lost: {error}") from error

    def remove(self, key: str) -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            self._client.key_value_delete(key)


def _end(failure: str, exit_code: int = 1) -> None:
    print(f"HostError: {failure}", file=sys.stderr, flush=True)
    os._exit(exit_code)


def _leave(group: Group) -> None:
    """Ends a process whose run has failed without JAX's farewell, which would wait for processes
    that are gone and then abort this one."""
    sys.stdout.flush()
    sys.stderr.flush()
    group.outlast()
    os._exit(group.exit_code)
