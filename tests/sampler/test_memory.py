"""Who holds which pages: books that balance, shared prefixes, parked rows."""

import numpy as np
import pytest

from spade_jax.sampler.memory import MOVED, Memory
from spade_jax.sampler.pages import Pages
from spade_jax.sampler.prefixes import Prefixes

PAGE, CHUNK = 4, 6


class Recorder:
    """Programs whose cache is one number per page, and which moves those numbers."""

    def __init__(self, shards=1):
        self.shards = shards

    def empty_cache(self):
        return np.zeros((100, 1, 1, 1))

    def take(self, cache, table):
        return cache[table[:, 0]]

    def put(self, cache, table, offsets, recent):
        cache = cache.copy()
        cache[table[:, 0]] = recent
        return cache

    def copy(self, cache, source, target):
        cache = cache.copy()
        cache[target] = cache[source]
        return cache


@pytest.fixture
def parked():
    return []


def memory(parked, pages=9, slots=4):
    return Memory(Recorder(), pages, PAGE, slots, CHUNK, parked.append)


def grown(memory, row, length):
    assert memory.fit(row, length)
    memory.fill(row, length - row.length)
    return row


def mark(memory, row):
    """Writes the row's number into each of its pages."""
    memory._cache[np.asarray(row.pages)] = row.order + 1


def marks(memory, row):
    return memory._cache[np.asarray(row.pages)].ravel().tolist()


def test_pages_return_when_their_last_holder_lets_go():
    pages = Pages(4)
    first, second, third = (pages.allocate() for _ in range(3))
    assert {first, second, third} == {1, 2, 3} and pages.allocate() is None
    pages.hold([first])
    assert (pages.holders(first), pages.holders(second)) == (2, 1)
    pages.release([first, second])
    assert pages.free == 1 and pages.allocate() == second
    pages.release([first])
    assert pages.free == 1


def test_a_row_grows_page_by_page_and_gives_all_back(parked):
    house = memory(parked)
    row, prefix = house.open(0, range(5))
    assert prefix is None
    grown(house, row, 5)
    assert len(row.pages) == 2
    grown(house, row, 9)
    assert len(row.pages) == 3
    house.rewind(row, 4)
    assert (row.length, len(row.pages)) == (4, 1)
    house.close(row)
    while house._prefixes[0].evict():
        pass
    assert house._pages[0].free == 8 and house.open_rows == 0


def test_a_prefix_is_waited_for_then_shared_and_copied_before_it_is_written(parked):
    house = memory(parked)
    prompt = list(range(7))
    reader, nothing = house.open(0, prompt)
    waiter, prefix = house.open(1, prompt)
    assert nothing is None and prefix.length == 7 and prefix.pages is None
    grown(house, reader, 7)
    mark(house, reader)
    assert prefix.pages == tuple(reader.pages)
    assert house.go_on(waiter, prompt) is None
    assert (waiter.length, waiter.pages) == (7, reader.pages)
    grown(house, waiter, 8)
    assert waiter.pages[0] == reader.pages[0] and waiter.pages[1] != reader.pages[1]
    assert marks(house, waiter) == [1, 1]  # what was read came along
    house.close(reader)
    later, nothing = house.open(2, prompt)
    assert nothing is None and later.length == 7, "a prefix outlives its reader"
    assert marks(house, later) == [1, 1]


def test_a_reader_that_ends_early_leaves_what_it_read_and_gives_up_the_rest(parked):
    house = memory(parked, pages=20)
    prompt = list(range(14))
    reader, _ = house.open(0, prompt)
    _, prefix = house.open(1, prompt)
    assert prefix.length == 14
    grown(house, reader, 6)
    house.close(reader)
    assert prefix.given_up
    row, awaited = house.open(2, prompt)
    assert row.length == 6 and awaited is None


def test_who_waited_for_a_reader_that_gave_up_is_waited_for_in_its_place(parked):
    house = memory(parked, pages=40)
    short, long = list(range(12)), list(range(18))
    reader, _ = house.open(0, short)
    middle, first = house.open(1, long)
    last, second = house.open(2, long)
    assert (first.length, second.length) == (12, 18)
    house.close(reader)
    assert first.given_up and not second.given_up
    assert house.go_on(middle, long) is None and middle.length == 0
    grown(house, middle, 18)
    assert second.pages and house.go_on(last, long) is None and last.length == 18


def test_what_a_row_begins_with_cannot_be_evicted_before_it_reads_on(parked):
    house = memory(parked)
    reader, _ = house.open(0, range(12))
    grown(house, reader, 12)
    house.close(reader)
    row, _ = house.open(1, range(20))
    assert row.length == 12
    other, _ = house.open(2, range(50, 54))
    grown(house, other, 4 * 5)
    assert not house.fit(other, 4 * 6) or len(set(other.pages) & set(row.pages)) == 0
    assert len(row.pages) == 3


def test_a_refused_request_costs_no_prefix(parked):
    house = memory(parked, pages=10)
    reader, _ = house.open(0, range(12))
    grown(house, reader, 12)
    house.close(reader)
    running, _ = house.open(1, range(50, 52))
    grown(house, running, 4 * 4)
    assert house.open(2, range(60, 90)) is None
    row, _ = house.open(3, range(12))
    assert row.length == 12


def test_prefixes_are_forgotten_before_rows_are_parked(parked):
    house = memory(parked)
    first, _ = house.open(0, range(16))
    grown(house, first, 16)
    house.close(first)  # its prefixes hold four pages of eight
    second, _ = house.open(1, range(100, 120))
    grown(house, second, 32)
    assert len(second.pages) == 8 and not parked


def test_idle_rows_are_parked_first_then_the_youngest_and_come_back_whole(parked):
    house = memory(parked)
    rows = [house.open(order, [order])[0] for order in range(3)]
    for row in rows:
        grown(house, row, 8)
        mark(house, row)
    house._prefixes[0].evict()
    old, middle, young = rows
    middle.idle = True
    grown(house, old, 20)
    assert (middle.pages, young.pages != [], parked) == ([], True, [2])
    grown(house, old, 28)
    assert young.pages == [] and parked == [2, 2]
    assert not house.fit(young, 9), "a younger row takes nothing from an older one"
    house.close(old)
    assert house.fit(young, 9) and marks(house, young)[:2] == [3, 3] and not young.parked
    assert house.fit(middle, 8) and marks(house, middle) == [2, 2]


def test_a_busy_row_keeps_its_pages(parked):
    house = memory(parked)
    old, young = (house.open(order, [order])[0] for order in range(2))
    grown(house, young, 16)
    young.busy = True
    assert not house.fit(old, 24) and young.pages
    young.busy = False
    assert house.fit(old, 24) and not young.pages


def test_many_pages_are_parked_in_several_dispatches(parked):
    house = memory(parked, pages=2 * MOVED + 4)
    old, young = (house.open(order, [order])[0] for order in range(2))
    grown(house, young, PAGE * (MOVED + 2))
    house._cache[np.asarray(young.pages)] = np.arange(MOVED + 2)[:, None, None, None]
    assert house.fit(old, PAGE * (MOVED + 2)) and parked == [MOVED + 2]
    house.close(old)
    assert house.fit(young, young.length) and marks(house, young) == list(range(MOVED + 2))


def test_requests_wait_for_pages_unless_nobody_runs(parked):
    house = memory(parked, pages=7)
    first, _ = house.open(0, range(12))
    grown(house, first, 20)
    assert house.open(1, range(50, 60)) is None
    first.idle = True
    assert house.open(1, range(50, 60)) is not None


def test_prefixes_tell_prompts_apart_by_whole_chunks_and_whole_prompts():
    books = Prefixes(Pages(50), PAGE, CHUNK)
    books.announce("reader", list(range(15)))
    books.progress("reader", 15, list(range(1, 5)))
    assert books.longest(list(range(15)), "asking").length == 15
    assert books.longest(list(range(14)), "asking").length == 12
    assert books.longest([*range(12), 99, 98], "asking").length == 12
    assert books.longest([*range(11), 99, 98], "asking").length == 6
    assert books.longest([99], "asking") is None
