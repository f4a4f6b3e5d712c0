"""Joins this process to the others of a run, before anything touches a device.

JAX's coordination service finds the processes and watches over them: one that is killed is missed
by its heartbeats, and the service then ends the others. Its key-value store carries small messages.
"""

import contextlib
import os
import sys
from collections.abc import Iterator

import jax
from jax._src.distributed import global_state
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from spade_jax.parallel.hosts import Group, HostError, Hosts

GRACE = 10.0  # seconds for a process to stop by itself once another one has failed


@contextlib.contextmanager
def joined(section: ConfigDict) -> Iterator[Hosts]:
    """The processes of `config.distributed`; one alone when it is not enabled.

    Raises:
        HostError: the others are not found in time.
    """
    if not section.enabled:
        yield Hosts()
        return
    _initialize(section)
    group = Group(
        _Coordinator(), jax.process_index(), jax.process_count(), section.timeout_s,
        multihost_utils.process_allgather,
    )  # fmt: skip
    with group.together(GRACE, _end):
        group.all("start", None)
        yield group
        group.all("end", None)
    jax.distributed.shutdown()


def _initialize(section: ConfigDict) -> None:
    # The run has its own way to stop after a signal.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            section.coordinator or None,
            section.num_processes if section.num_processes >= 0 else None,
            section.process_id if section.process_id >= 0 else None,
            initialization_timeout=section.start_s,
            heartbeat_timeout_seconds=section.heartbeat_s,
            shutdown_timeout_seconds=section.heartbeat_s,
        )
    except (RuntimeError, ValueError) as error:
        raise HostError(
            f"distributed.coordinator={section.coordinator!r},"
            f" num_processes={section.num_processes}, process_id={section.process_id}: {error}"
        ) from error


class _Coordinator:
    """The coordination service's key-value store, which JAX has no public name for."""

    def __init__(self):
        self._client = global_state.client

    def put(self, key: str, value: bytes) -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # there already
            self._client.key_value_set_bytes(key, value)

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


def _end(failure: str) -> None:
    print(f"HostError: {failure}", file=sys.stderr, flush=True)
    os._exit(1)
