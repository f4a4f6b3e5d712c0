"""Who holds which pages: admission, growth, sharing, and what happens when pages run out.

Rows take pages as they grow. When none is free, prefixes that nobody uses are forgotten first; then
rows are parked: their pages are copied to the host and come back, bit for bit, before they go on.
First those whose turn is over, then the youngest that run; the oldest row can thus always go on,
and a budget of one whole context per shard is enough for any load.
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np

from spade_jax.models.cache import Cache
from spade_jax.sampler.pages import NOBODYS, Pages
from spade_jax.sampler.prefixes import Prefix, Prefixes
from spade_jax.sampler.programs import Programs

MOVED = 8  # pages of one dispatch that copies or parks


@dataclasses.dataclass(eq=False)
class Row:
    """One episode's keys and values.

    Attributes:
        order: rows with smaller numbers go first.
        length: positions that are filled.
        pages: that hold them, and those it will write next.
        parked: what its pages held, on the host; `pages` are then those it will go back to.
        busy: a dispatch reads it or will write to it.
        idle: its turn is over.
    """

    shard: int
    order: int
    length: int = 0
    pages: list[int] = dataclasses.field(default_factory=list)
    parked: list = dataclasses.field(default_factory=list)
    busy: bool = False
    idle: bool = False


class Memory:
    """The cache of one engine. Every method belongs to one thread."""

    def __init__(
        self, programs: Programs, pages: int, page: int, slots: int, chunk: int,
        count_parked: Callable[[int], None],
    ):  # fmt: skip
        """`pages` and `slots`: of each shard. `chunk`: longest row of a prefill."""
        self._programs, self._page, self._chunk = programs, page, chunk
        self._count, self._slots, self._count_parked = pages, slots, count_parked
        self._cache: Cache | None = None
        self._rows: list[list[Row]] = [[] for _ in range(programs.shards)]
        self.forget()

    def release(self) -> None:
        """Gives the cache's memory back, until a row is opened. Only when none is open."""
        self.forget()
        self._cache = None

    def forget(self) -> None:
        """Drops all prefixes: other parameters will fill the pages. Only when no row is open."""
        self._pages = [Pages(self._count) for _ in self._rows]
        self._prefixes = [Prefixes(pages, self._page, self._chunk) for pages in self._pages]

    @property
    def open_rows(self) -> int:
        return sum(map(len, self._rows))

    def open(self, order: int, tokens: Sequence[int]) -> tuple[Row, Prefix | None] | None:
        """A row for a prompt, which begins with what is known of it, and the longer prefix that
        somebody still reads. None when no slot is free, or too few pages are."""
        shard = min(range(len(self._rows)), key=lambda shard: len(self._rows[shard]))
        if len(self._rows[shard]) >= self._slots:
            return None
        self._allocate_cache()
        row = Row(shard, order)
        awaited = self._begin(row, tokens)
        needed = self._pages_for(len(tokens) + self._chunk) - len(row.pages)
        free = self._pages[shard].free + self._prefixes[shard].reclaimable()
        if needed > free and not all(other.idle for other in self._rows[shard]):
            self._pages[shard].release(row.pages)
            return None
        self._rows[shard].append(row)
        self._prefixes[shard].announce(row, tokens)
        return row, awaited

    def go_on(self, row: Row, tokens: Sequence[int]) -> Prefix | None:
        """The prefix that the empty row waited for has been read, or was given up: as `open`."""
        awaited = self._begin(row, tokens)
        self._prefixes[row.shard].announce(row, tokens)
        return awaited

    def _begin(self, row: Row, tokens: Sequence[int]) -> Prefix | None:
        prefix = self._prefixes[row.shard].longest(tokens, row)
        if prefix is None or prefix.pages is None:
            return prefix
        self._pages[row.shard].hold(prefix.pages)
        row.pages, row.length = list(prefix.pages), prefix.length
        return None

    def fit(self, row: Row, length: int) -> bool:
        """Makes the row ready to be filled up to `length` positions; False when that must wait."""
        pages = self._pages[row.shard]
        first = row.length // self._page
        borrowed = row.pages[first : first + 1]
        if not row.parked and borrowed and pages.holders(borrowed[0]) > 1:
            own = self._allocate(row)
            if own is not None:
                self._copy(row.shard, borrowed[0], own)
                pages.release(borrowed)
                row.pages[first] = own
            else:
                self._prefixes[row.shard].let_go(borrowed[0])
                if pages.holders(borrowed[0]) > 1:
                    return False
        wanted = self._pages_for(length)
        while len(row.pages) < max(wanted, len(row.parked)):
            if (page := self._allocate(row)) is None:
                return False
            row.pages.append(page)
        if row.parked:
            self._unpark(row)
        return True

    def past(self, rows: Sequence[Row | None], length: int) -> Cache:
        """The first `length` positions of each row; of rows that are None, anything finite. The
        rows of each shard stand together."""
        table = np.full((len(rows), length // self._page), NOBODYS, np.int32)
        for line, row in zip(table, rows, strict=True):
            held = row.pages[: len(line)] if row else []
            line[: len(held)] = held
        return self._programs.take(self._cache, table)

    def write(self, rows: Sequence[Row | None], width: int, recent: Cache) -> None:
        """Puts `recent`, `width` positions of each row, behind the rows; `fit` made room for what
        counts, the rest is dropped, and so is what belongs to a row that is None."""
        table = np.full((len(rows), self._pages_for(width - 1) + 1), NOBODYS, np.int32)
        offsets = np.zeros(len(rows), np.int32)
        for number, row in enumerate(rows):
            if row:
                first, offsets[number] = divmod(row.length, self._page)
                held = row.pages[first : first + table.shape[1]]
                table[number, : len(held)] = held
        self._cache = self._programs.put(self._cache, table, offsets, recent)

    def fill(self, row: Row, positions: int) -> None:
        """So many positions more are filled."""
        row.length += positions
        self._prefixes[row.shard].progress(row, row.length, row.pages)

    def rewind(self, row: Row, length: int) -> None:
        """Forgets what lies at `length` and behind."""
        row.length = min(row.length, length)
        keep = self._pages_for(row.length)
        if row.parked:
            del row.parked[keep:]
        else:
            self._pages[row.shard].release(row.pages[keep:])
            del row.pages[keep:]

    def give_up(self, row: Row) -> None:
        """The row reads no prompt any more that others wait for."""
        self._prefixes[row.shard].give_up(row)

    def close(self, row: Row) -> None:
        self.give_up(row)
        self._pages[row.shard].release(row.pages)
        row.pages, row.parked = [], []
        self._rows[row.shard].remove(row)

    def warm_up(self) -> None:
        """Compiles what copies and parks pages."""
        self._allocate_cache()
        row = Row(shard=0, order=0, length=1, pages=[NOBODYS])
        self._copy(0, NOBODYS, NOBODYS)
        row.parked = self._to_host(row)
        self._unpark(row)

    def _allocate_cache(self) -> None:
        if self._cache is None:
            self._cache = self._programs.empty_cache()

    def _pages_for(self, length: int) -> int:
        return -(-length // self._page)

    def _allocate(self, row: Row) -> int | None:
        """A page for the row, taken from others if it must be."""
        pages, prefixes = self._pages[row.shard], self._prefixes[row.shard]
        while (page := pages.allocate()) is None:
            if prefixes.evict():
                continue
            victim = self._victim(row)
            if victim is None:
                return None
            self._park(victim)
        return page

    def _victim(self, row: Row) -> Row | None:
        others = [
            other
            for other in self._rows[row.shard]
            if other is not row and other.pages and not other.busy
            and (other.idle or other.order > row.order)
        ]  # fmt: skip
        return max(others, key=lambda other: (other.idle, other.order), default=None)

    def _park(self, row: Row) -> None:
        """Copies the row's filled pages to the host and gives all of them up."""
        if not row.parked:  # else it was on its way back
            row.parked = self._to_host(row)
            self._count_parked(len(row.parked))
        self._pages[row.shard].release(row.pages)
        row.pages = []

    def _to_host(self, row: Row) -> list:
        filled, copies = row.pages[: self._pages_for(row.length)], []
        for start in range(0, len(filled), MOVED):
            some = filled[start : start + MOVED]
            taken = self._programs.take(self._cache, self._table(row.shard, some)[:, None])
            host, first = jax.device_get(taken), row.shard * MOVED
            for at in range(first, first + len(some)):
                copies.append(jax.tree.map(lambda part, at=at: np.take(part, at, axis=-4), host))
        return copies

    def _unpark(self, row: Row) -> None:
        for start in range(0, len(row.parked), MOVED):
            some = row.parked[start : start + MOVED]
            table = self._table(row.shard, row.pages[start : start + len(some)])
            fill = [some[0]] * (row.shard * MOVED) + some
            fill += [some[0]] * (len(table) - len(fill))
            back = jax.tree.map(lambda *parts: np.stack(parts, axis=-4), *fill)
            zeros = np.zeros(len(table), np.int32)
            self._cache = self._programs.put(self._cache, table[:, None], zeros, back)
        row.parked = []

    def _copy(self, shard: int, source: int, target: int) -> None:
        """One page. Copies to the page that nobody reads fill the dispatch."""
        tables = self._table(shard, [source]), self._table(shard, [target])
        self._cache = self._programs.copy(self._cache, *tables)

    def _table(self, shard: int, pages: Sequence[int]) -> np.ndarray:
        """`[shards * MOVED]` with these pages in their shard's part."""
        table = np.full(len(self._rows) * MOVED, NOBODYS, np.int32)
        table[shard * MOVED : shard * MOVED + len(pages)] = pages
        return table
