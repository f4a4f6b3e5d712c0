"""Which rows go into the next job."""

import dataclasses
from collections.abc import Iterator, Sequence

from spade_jax.sampler.handle import Handle
from spade_jax.sampler.request import EngineSettings

PATIENCE = 16  # jobs that may go before somebody who could have been in them


@dataclasses.dataclass(frozen=True)
class Kind:
    """What rows must have in common to share a job.

    Attributes:
        width: most new tokens of a row of a prefill; None: a decode.
        past: cached positions that are read.
    """

    width: int | None
    past: int


@dataclasses.dataclass
class Job:
    """One dispatch. The rows of each shard stand together; None where nobody is."""

    kind: Kind
    rows: list[Handle | None]

    def places(self) -> Iterator[tuple[int, Handle]]:
        """The rows that are somebody's; a handle that was closed has none any more."""
        for place, handle in enumerate(self.rows):
            if handle is not None and handle.row is not None:
                yield place, handle


class Planner:
    """Full jobs go first, prefills before decodes, older rows before younger ones. A job that is
    not full goes when nothing better is there; who has waited for `PATIENCE` jobs goes first."""

    def __init__(self, settings: EngineSettings, shards: int):
        self._settings, self._shards = settings, shards
        self._pasts = settings.past_lengths()

    def kinds(self) -> Iterator[Kind]:
        """All that can occur."""
        for past in self._pasts:
            for width in (*self._settings.prefill_chunks, None):
                yield Kind(width, past)

    def rows(self, kind: Kind) -> int:
        """Rows of a job, a multiple of the shards."""
        settings = self._settings
        rows = settings.decode_rows or settings.num_slots
        if kind.width is not None:
            rows = settings.prefill_tokens // kind.width
        if settings.past_tokens and kind.past:
            rows = min(rows, settings.past_tokens // kind.past)
        rows = min(rows, settings.num_slots)
        return max(rows // self._shards, 1) * self._shards

    def kind(self, handle: Handle) -> Kind:
        """Of the handle's next job."""
        past = next(past for past in self._pasts if past >= handle.row.length)
        left = len(handle.pending) - 1
        if not left:
            return Kind(None, past)
        chunks = self._settings.prefill_chunks
        return Kind(next((chunk for chunk in chunks if chunk >= left), chunks[-1]), past)

    def growth(self, kind: Kind, handle: Handle) -> int:
        """Positions that a job fills in the handle's row, at most."""
        if kind.width is None:
            return min(self._settings.decode_chunk, handle.room(self._settings.max_len))
        return min(kind.width, len(handle.pending) - 1)

    def choose(self, handles: Sequence[Handle], started: int) -> Job | None:
        """The best job for handles that can have one, older ones first; None for no handles.

        Args:
            started: jobs so far.
        """
        alike: dict[Kind, list[Handle]] = {}
        for handle in handles:
            alike.setdefault(self.kind(handle), []).append(handle)
        best = min(alike.items(), key=lambda item: self._rank(*item, started), default=None)
        if best is None:
            return None
        kind, members = best
        members.sort(key=lambda handle: started - handle.since < PATIENCE)  # stable
        return Job(kind, self._placed(kind, members))

    def _rank(self, kind: Kind, handles: Sequence[Handle], started: int) -> tuple:
        overdue = started - min(handle.since for handle in handles) >= PATIENCE
        missing = max(0, self.rows(kind) - len(handles))
        return not overdue, missing > 0, kind.width is None, missing

    def _placed(self, kind: Kind, handles: Sequence[Handle]) -> list[Handle | None]:
        """The rows of a job: each shard's handles in its part."""
        rows = self.rows(kind)
        each = rows // self._shards
        placed: list[Handle | None] = [None] * rows
        taken = [0] * self._shards
        for handle in handles:
            shard = handle.row.shard
            if taken[shard] < each:
                placed[shard * each + taken[shard]] = handle
                taken[shard] += 1
        return placed
