"""What a pool looks at every tick: deadlines, whose turn it is, and the memory of all together."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from sandbox_runner.child_process import ChildProcess
from sandbox_runner.types import EnvError, Limits

TICK = 0.05  # seconds
_GRACE_CPU = 0.25  # the child's own timer is exact; the pool's is the one it cannot touch
_SLOW_WALL, _SLOW_CPU = 0.1, 0.002  # a call of more seconds than both is a slow one
_IDLE_CPU = 0.001  # seconds in a tick, below which a child does not need a processor
_TURN_OF_SLOW = 4  # ticks, of which slow calls have one while there are quick ones


class Watch:
    """`tick` says which children must end, and why; it stops and continues those that are slow."""

    def __init__(self, limits: Limits, processors: int | None = None) -> None:
        self._limits = limits
        self._total_bytes = limits.total_bytes or half_of_the_machine()
        self._processors = processors or len(os.sched_getaffinity(0))
        self._served: set[ChildProcess] = set()  # since the last look at their memory
        self._quick: set[ChildProcess] = set()  # that had a call since the last tick
        self._quick_until = 0.0
        self._slow: dict[ChildProcess, float] = {}  # in a slow call -> its seconds of CPU
        self._idle: set[ChildProcess] = set()  # of the slow, those that ran but did not compute
        self._ticks = 0

    def called(self, child: ChildProcess) -> None:
        """The call at the head of the child's queue begins."""
        self._served.add(child)
        self._quick.add(child)

    def answered(self, child: ChildProcess) -> EnvError | None:
        """What is wrong with a child that has just answered the call at the head of its queue.

        CPU time counts from the last answer: what a program computes without being asked is charged
        to the next call, however quick that is.
        """
        cpu = child.cpu() or 0.0
        used, child.cpu_base = cpu - child.cpu_base, cpu
        if self._slow.pop(child, None) is not None:
            child.resume()
        allowed = child.calls[0].cpu
        return _too_much(used, allowed) if used > allowed else None

    def tick(
        self, children: Collection[ChildProcess], now: float
    ) -> Iterator[tuple[ChildProcess, EnvError]]:
        """Each child that must end, with the reason."""
        for child in children:
            error = self._overdue(child, now) if child.calls else self._restless(child)
            if error is not None:
                yield child, error
        self._take_turns(now)
        yield from self._too_large(children)

    def _overdue(self, child: ChildProcess, now: float) -> EnvError | None:
        if child.pid is None:
            return None  # not forked yet, for which the zygote has a deadline, or gone by then
        limits, cpu = self._limits, child.cpu()
        used = 0.0 if cpu is None else cpu - child.cpu_base
        if error := _too_much(used, child.calls[0].cpu):
            return error
        if child.paused_at is not None or now - child.wall_base < _SLOW_WALL:
            return None
        if used > _SLOW_CPU:
            idle = used - self._slow.get(child, 0.0) < _IDLE_CPU
            (self._idle.add if idle else self._idle.discard)(child)
            self._slow[child] = used
        if child.sleep.look(child.pid, now) > limits.sleep_wall:
            return EnvError("limits", f"slept for {limits.sleep_wall:g} s instead of answering")
        if now - child.wall_base > limits.call_wall:
            return EnvError("limits", f"gave no answer within {limits.call_wall:g} s")
        return None

    def _restless(self, child: ChildProcess) -> EnvError | None:
        cpu = child.cpu()
        if cpu is None or cpu <= child.cpu_base:
            return None
        self._served.add(child)
        if cpu - child.cpu_base <= _GRACE_CPU:
            return None
        return EnvError("limits", "went on computing after it had answered")

    def _take_turns(self, now: float) -> None:
        """Lets slow calls compute on no more processors than there are, those first that have
        computed least. When they are more than that, and there are quick calls too, they have half
        as many, for one tick of four. So nobody who is quick has to wait for them. One that ran but
        did not compute sleeps, and takes nobody's place."""
        slow = sorted((c for c in self._slow if c.error is None and c.calls), key=self._slow.get)
        self._slow = {child: self._slow[child] for child in slow}
        if self._quick - self._slow.keys():
            self._quick_until = now + 2 * TICK
        self._quick = {child for child in self._quick if child.calls}
        self._idle &= self._slow.keys()
        slow = [child for child in slow if child not in self._idle]
        self._ticks += 1
        places = self._processors
        if now < self._quick_until and len(slow) > places:
            places = 0 if self._ticks % _TURN_OF_SLOW else max(1, places // 2)
        for child in slow[:places]:
            child.resume()
        for child in slow[places:]:
            child.pause()

    def _too_large(
        self, children: Collection[ChildProcess]
    ) -> Iterator[tuple[ChildProcess, EnvError]]:
        """The largest, until the others together take no more than they may. Only those are looked
        at that have computed since the last look."""
        for child in self._served:
            if child.error is None and child.pid is not None:
                child.memory.look(child.pid)
        self._served = {child for child in self._served if child.calls}
        if sum(child.memory.most for child in children) <= self._total_bytes:
            return
        sizes = {child: child.memory.read(child.pid) for child in children if child.pid}
        total = sum(sizes.values())
        for child in sorted(sizes, key=sizes.get, reverse=True):
            if total <= self._total_bytes:
                return
            total -= sizes[child]
            yield child, EnvError(
                "limits",
                f"took {sizes[child] >> 20} MiB when all programs together had more than the "
                f"{self._total_bytes >> 20} MiB that they may take",
            )


def _too_much(used: float, allowed: float) -> EnvError | None:
    if used <= allowed + _GRACE_CPU:
        return None
    return EnvError("limits", f"used more than {allowed:g} s of CPU time")


def half_of_the_machine() -> int:
    """Bytes: half of the memory that this process may use."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            return min(machine, int(file.read())) // 2
    except (OSError, ValueError):  # no such group, or one without a limit
        return machine // 2
