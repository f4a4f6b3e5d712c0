"""What an engine is told, and what it counts."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

MAX_STOP_IDS = 128


class ContextError(ValueError):
    """A request does not fit the context."""


class SettingsError(ValueError):
    """A setting of the engine is impossible; the message begins with its name."""


@dataclasses.dataclass(frozen=True)
class EngineSettings:
    """Attributes:
    num_slots: episodes that are open at a time.
    max_len: tokens of one episode, prompts and replies together.
    page: positions of one page of the cache. Programs read 0, 1, 2, 4, 8, ... pages of a row.
    cache_gib: most GiB of keys and values on the whole mesh; what does not fit waits or is parked
        in the host's memory. 0: `max_len` positions for every slot. Each of the `streams` needs
        room for `past_tokens` positions besides.
    prefill_tokens: positions of one prefill dispatch.
    prefill_chunks: lengths of its rows, rising; a turn reads its new tokens in chunks of the last,
        the rest in the shortest that holds it.
    decode_rows: most rows of one decode dispatch; 0: as many as slots.
    decode_chunk: most tokens of one decode dispatch.
    past_tokens: most cached positions that one dispatch reads, which are copied for it: rows that
        are long go fewer together. 0: any number.
    streams: dispatches on their way at a time. On CPU two keep two cores busier than one does;
        elsewhere the second waits on the device while the first one's results are taken in.
    """

    num_slots: int
    max_len: int
    page: int = 64
    cache_gib: float = 0.0
    prefill_tokens: int = 256
    prefill_chunks: tuple[int, ...] = (32, 64)
    decode_rows: int = 8
    decode_chunk: int = 16
    past_tokens: int = 0
    streams: int = 2

    def __post_init__(self):
        chunks = self.prefill_chunks
        if not chunks or chunks[0] < 1 or list(chunks) != sorted(set(chunks)):
            raise SettingsError(f"prefill_chunks={chunks}: expected rising numbers above 0")
        for name in ("num_slots", "page", "prefill_tokens", "decode_chunk", "streams"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name}={getattr(self, name)}: expected at least 1")
        for name in ("cache_gib", "decode_rows", "past_tokens"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name}={getattr(self, name)}: expected at least 0")

    @property
    def context_pages(self) -> int:
        """Pages of a full context."""
        return -(-self.max_len // self.page)

    def past_lengths(self) -> tuple[int, ...]:
        """The lengths of the past that programs read."""
        counts = [0, 1]
        while counts[-1] < self.context_pages:
            counts.append(2 * counts[-1])
        return tuple(self.page * min(count, self.context_pages) for count in counts)

    def pages(self, position_bytes: int, shards: int) -> int:
        """Pages of each shard's cache.

        Raises:
            SettingsError: the budget does not hold one full context per shard.
        """
        most = self.context_pages * -(-self.num_slots // shards) + 1  # one page is nobody's
        if not self.cache_gib:
            return most
        page_bytes = position_bytes * self.page
        count = math.floor(self.cache_gib * 2**30 / page_bytes / shards)
        if count <= self.context_pages:
            needed = (self.context_pages + 1) * page_bytes * shards / 2**30
            raise SettingsError(
                f"cache_gib={self.cache_gib}: expected at least {needed:.3g}, which holds one"
                f" context of max_len={self.max_len} in each of {shards} shards"
            )
        return min(count, most)


@dataclasses.dataclass(frozen=True)
class Request:
    """One episode's first prompt and how to sample all its turns.

    Attributes:
        temperature: 0 is greedy.
        top_k, top_p: sample among the likeliest tokens only, see `sampling.truncate`; the log-probs
            are then of that policy, which is not the learner's. 0 and 1: among all.
        stop_strings: the turn also ends with the token that completes one of them in `decode`d
            text.
        decode: from sampled tokens to text.
        timeout: seconds that a turn may take from `submit` or `extend` on. Whether it is met
            depends on the machine, so only without it are results reproducible.
    """

    tokens: Sequence[int]
    max_new_tokens: int
    seed: int
    temperature: float
    stop_ids: Sequence[int]
    top_k: int = 0
    top_p: float = 1.0
    stop_strings: tuple[str, ...] = ()
    decode: Callable[[Sequence[int]], str] | None = None
    timeout: float | None = None

    def deadline(self) -> float:
        """Of a turn that begins now, on the clock of `time.monotonic`."""
        return math.inf if self.timeout is None else time.monotonic() + self.timeout

    def __post_init__(self):
        if not len(self.tokens):
            raise ValueError("a request needs at least one prompt token")
        check_budget(self.max_new_tokens)
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed}: expected an unsigned number of 32 bits")
        if len(self.stop_ids) > MAX_STOP_IDS:
            raise ValueError(f"{len(self.stop_ids)} stop ids, at most {MAX_STOP_IDS} can be")
        if self.temperature < 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise ValueError(
                f"temperature={self.temperature}, top_k={self.top_k}, top_p={self.top_p}: expected"
                " at least 0, at least 0, and above 0 up to 1"
            )
        if isinstance(self.stop_strings, str) or not all(self.stop_strings):
            raise ValueError(f"stop_strings={self.stop_strings!r}: expected non-empty strings")
        if self.stop_strings and self.decode is None:
            raise ValueError("stop_strings need decode, which turns tokens into text")
        if self.timeout is not None and self.timeout <= 0:
            raise ValueError(f"timeout={self.timeout}: expected seconds above 0, or None")


@dataclasses.dataclass
class Stats:
    """Counters since the weights were loaded.

    Attributes:
        slot_steps: decode steps times rows.
        shared_tokens: taken from a common prefix instead of being prefilled.
        kept_tokens: already in the cache when a turn went on, instead of being prefilled again.
        parked_pages: copied to the host because the cache was full.
        seconds: inside `Engine.advance`.
        waited_seconds: without a job under way while the caller waited for something else, see
            `Engine.waiting`: for `play`, while episodes waited for their environments.
    """

    sampled_tokens: int = 0
    prefilled_tokens: int = 0
    shared_tokens: int = 0
    kept_tokens: int = 0
    slot_steps: int = 0
    dispatches: int = 0
    parked_pages: int = 0
    seconds: float = 0.0
    waited_seconds: float = 0.0

    def slot_use(self) -> float:
        """Share of decode work that produced a kept token, in [0, 1]."""
        return self.sampled_tokens / self.slot_steps if self.slot_steps else 0.0

    def rate(self) -> float:
        """Sampled tokens per second of `advance`."""
        return self.sampled_tokens / self.seconds if self.seconds else 0.0


def check_budget(max_new_tokens: int) -> None:
    """Raises ValueError unless a turn may sample something."""
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={max_new_tokens}: expected at least 1")
