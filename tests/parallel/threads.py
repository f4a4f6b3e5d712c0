"""Processes of a run, here threads that share a dictionary."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from spade_jax.parallel.hosts import Group


class Dictionary:
    """A `Store` in memory."""

    def __init__(self):
        self.values, self._changed = {}, threading.Condition()

    def put(self, key, value, replace=False):
        with self._changed:
            self.values[key] = value if replace else self.values.get(key, value)
            self._changed.notify_all()

    def get(self, key, seconds):
        with self._changed:
            self._changed.wait_for(lambda: key in self.values, seconds)
            return self.values.get(key)

    def remove(self, key):
        with self._changed:
            self.values.pop(key, None)


class Network:
    """`collect` of all processes: waits for them, like a collective operation of devices."""

    def __init__(self, count):
        self._barrier, self._rows, self.shapes = threading.Barrier(count), {}, []

    def of(self, index):
        def collect(array):
            self.shapes.append(array.shape)
            self._rows[index] = array
            self._barrier.wait(10)
            rows = np.stack([self._rows[k] for k in sorted(self._rows)])
            self._barrier.wait(10)
            return rows

        return collect


def groups(count, timeout=10.0):
    store, network = Dictionary(), Network(count)
    return [Group(store, k, count, timeout, network.of(k)) for k in range(count)], store, network


def everywhere(members, do):
    """What `do(group)` gives in each process; the first error is raised once all have ended."""
    with ThreadPoolExecutor(len(members)) as pool:
        return [future.result() for future in [pool.submit(do, member) for member in members]]
