"""Which pages of one shard are free, and how many rows and prefixes hold each."""

from collections.abc import Iterable

NOBODYS = 0  # the page that takes what no row keeps


class Pages:
    """Pages 1 to `count` - 1. A page that several hold must not be written."""

    def __init__(self, count: int):
        self._free = list(range(count - 1, NOBODYS, -1))
        self._holders = [0] * count

    @property
    def free(self) -> int:
        return len(self._free)

    def allocate(self) -> int | None:
        """A page with one holder, None when all are held."""
        if not self._free:
            return None
        page = self._free.pop()
        self._holders[page] = 1
        return page

    def hold(self, pages: Iterable[int]) -> None:
        for page in pages:
            self._holders[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        for page in pages:
            self._holders[page] -= 1
            if not self._holders[page]:
                self._free.append(page)

    def holders(self, page: int) -> int:
        return self._holders[page]
