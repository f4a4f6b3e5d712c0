"""Whose turn it is, against children made up for it and a clock of our own."""

import pytest

from sandbox_runner.types import Limits
from sandbox_runner.watch import TICK, Watch


class Asleep:
    def look(self, pid, now):
        return 0.0


class Memory:
    most = 0

    def look(self, pid):
        pass

    def read(self, pid):
        return self.most


class Call:
    cpu = 1.0


class Child:
    """Computes for as many seconds as it is told; remembers whether it is paused."""

    pid, error, wall_base = 7, None, 0.0

    def __init__(self, cpu=0.0, calls=1):
        self.used, self.cpu_base = cpu, 0.0
        self.calls = [Call()] * calls
        self.sleep, self.memory, self.paused_at = Asleep(), Memory(), None

    def cpu(self):
        return self.used

    def pause(self):
        self.paused_at = 1.0

    def resume(self):
        self.paused_at = None

    @property
    def runs(self):
        return self.paused_at is None


def watch_of(children, processors=2):
    watch = Watch(Limits(), processors)
    for child in children:
        watch.called(child)
    return watch


def ticks(watch, children, count, quick=None):
    """How many children were running after each tick."""
    running = []
    for tick in range(count):
        if quick is not None:
            watch.called(quick)
        assert list(watch.tick(children, 10.0 + tick * TICK)) == []
        for child in children:
            child.used += 0.01 * child.runs  # whoever is let computes
        running.append(sum(child.runs for child in children))
    return running


def test_slow_calls_share_the_processors_and_those_that_computed_least_go_first():
    slow = [Child(cpu) for cpu in (0.5, 0.1, 0.4, 0.2, 0.3)]
    watch = watch_of(slow)
    assert ticks(watch, slow, 8)[4:] == [2] * 4
    assert [child.runs for child in slow] == [False, True, False, True, False]


def test_beside_quick_calls_the_slow_ones_have_one_tick_of_four():
    slow, quick = [Child(0.5) for _ in range(6)], Child(0.001)
    watch = watch_of(slow)
    running = ticks(watch, slow, 12, quick)
    assert sorted(running[4:]) == [0] * 6 + [1] * 2


def test_no_more_slow_calls_than_processors_are_never_stopped():
    slow, quick = [Child(0.5) for _ in range(2)], Child(0.001)
    assert ticks(watch_of(slow), slow, 8, quick) == [2] * 8


def test_an_answer_ends_the_pause():
    slow = [Child(0.1 * n) for n in range(1, 6)]
    watch = watch_of(slow)
    ticks(watch, slow, 4)
    stopped = next(child for child in slow if not child.runs)
    assert watch.answered(stopped) is None
    assert stopped.runs and stopped.cpu_base == stopped.used


def test_one_that_sleeps_takes_nobodys_place():
    sleepers, busy = [Child(0.01) for _ in range(4)], Child(0.5)
    everybody = [*sleepers, busy]
    watch = watch_of(everybody)
    for tick in range(6):
        busy.used += 0.05
        list(watch.tick(everybody, 10.0 + tick * TICK))
    assert all(child.runs for child in everybody)


def test_what_was_computed_unasked_is_charged_to_a_call_however_quick():
    child = Child(9.0)
    watch = watch_of([child])
    assert "used more than 1 s" in watch.answered(child).detail
    assert watch.answered(child) is None  # charged once


def test_who_computes_unasked_has_its_memory_looked_at():
    child = Child(0.1, calls=0)
    child.memory.look = lambda pid: setattr(child.memory, "most", 90 << 20)
    ((ended, error),) = Watch(Limits(total_bytes=60 << 20)).tick([child], 10.0)
    assert ended is child and "together" in error.detail


@pytest.mark.parametrize(
    ("child", "reason"),
    [(Child(2.0), "used more than 1 s"), (Child(0.5, calls=0), "went on computing")],
)
def test_too_much_computing_ends_a_child(child, reason):
    ((ended, error),) = Watch(Limits()).tick([child], 10.0)
    assert ended is child and reason in error.detail


def test_the_largest_are_ended_until_the_others_fit():
    children = [Child() for _ in range(4)]
    for child, size in zip(children, (10, 40, 30, 20), strict=True):
        child.memory.most = size << 20
    ended = [child for child, _ in Watch(Limits(total_bytes=60 << 20)).tick(children, 10.0)]
    assert ended == [children[1]]
    assert list(Watch(Limits(total_bytes=100 << 20)).tick(children, 10.0)) == []
