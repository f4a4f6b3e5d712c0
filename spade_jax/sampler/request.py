"""What an engine is told, and what it counts."""

import dataclasses
from collections.abc import Callable, Sequence

MAX_STOP_IDS = 128


class ContextError(ValueError):
    """A request does not fit the cache row of its slot."""


@dataclasses.dataclass(frozen=True)
class EngineSettings:
    """Attributes:
    num_slots: episodes whose caches are held.
    max_len: tokens of one cache row, prompt and replies together.
    prefill_tokens: positions of one prefill dispatch.
    prefill_chunks: lengths of its rows, rising; a turn reads its new tokens in chunks of the last,
        the rest in the shortest that holds it.
    decode_rows: slots of one decode dispatch; 0: all of them, which suits accelerators, where a
        step costs about the same for any number. Every row then reads as far as the longest, so
        that log-probs may depend on the load in their last bits.
    decode_chunk: most tokens of one decode dispatch.
    """

    num_slots: int
    max_len: int
    prefill_tokens: int = 256
    prefill_chunks: tuple[int, ...] = (16, 64)
    decode_rows: int = 16
    decode_chunk: int = 16

    def __post_init__(self):
        chunks = self.prefill_chunks
        if not chunks or chunks[0] < 1 or list(chunks) != sorted(set(chunks)):
            raise ValueError(f"prefill_chunks={chunks}: expected rising numbers above 0")
        for name in ("num_slots", "prefill_tokens", "decode_chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: expected at least 1")


@dataclasses.dataclass(frozen=True)
class Request:
    """One episode's first prompt and how to sample all its turns.

    Attributes:
        temperature: 0 is greedy.
        top_k, top_p: sample among the likeliest tokens only, see `sampling.truncate`; the log-probs
            are then of that policy, which is not the learner's. 0 and 1: among all.
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

    @property
    def is_narrow(self) -> bool:
        """Whether some tokens are left out."""
        return self.top_k > 0 or self.top_p < 1

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


@dataclasses.dataclass
class Stats:
    """Counters since the weights were loaded; `slot_steps` counts decode steps times rows,
    `shared_tokens` what was copied from another slot instead of prefilled."""

    sampled_tokens: int = 0
    prefilled_tokens: int = 0
    shared_tokens: int = 0
    slot_steps: int = 0
    dispatches: int = 0

    def slot_use(self) -> float:
        """Share of decode work that produced a kept token, in [0, 1]."""
        return self.sampled_tokens / self.slot_steps if self.slot_steps else 0.0


def check_budget(max_new_tokens: int) -> None:
    """Raises ValueError unless a turn may sample something."""
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={max_new_tokens}: expected at least 1")
