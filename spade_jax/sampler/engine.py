"""Slot-based sampling: a slot holds one episode's cache across all its turns.

`submit` queues a request, `advance` moves everything one dispatch further and returns the turns
that ended, `Handle.extend` appends the next turn's new tokens, `Handle.close` frees the slot. Only
new tokens are ever read: a turn's stop token and what follows it are prefilled when it continues.

In this engine results are deterministic: prefill chunks are cut from each request's own start, the
two programs have one shape each, and noise is keyed by (request seed, position). A request's
log-probs are bit-equal whatever slot, neighbours or load it meets (tests/sampler/test_engine.py).
"""

import dataclasses
from collections import deque
from collections.abc import Sequence

import jax
import numpy as np

from spade_jax import models
from spade_jax.sampler.programs import DecodeInputs, Programs

MAX_STOP_IDS = 128


class ContextError(ValueError):
    """A request does not fit the cache row of its slot."""


@dataclasses.dataclass(frozen=True)
class EngineSettings:
    """Attributes:
    num_slots: episodes that decode together.
    max_len: tokens of one cache row, prompt and replies together.
    prefill_rows, prefill_chunk: shape of one prefill dispatch.
    decode_chunk: most tokens of one decode dispatch.
    """

    num_slots: int
    max_len: int
    prefill_rows: int = 16
    prefill_chunk: int = 16
    decode_chunk: int = 16


@dataclasses.dataclass(frozen=True)
class Request:
    """One episode's first prompt and how to sample all its turns."""

    tokens: Sequence[int]
    max_new_tokens: int
    seed: int
    temperature: float
    stop_ids: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Turn:
    """What one turn sampled. `stopped` is false when it was cut at its token or context limit."""

    handle: "Handle"
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: bool
    version: int


@dataclasses.dataclass
class Stats:
    """Counters since the weights were loaded; `slot_steps` counts decode steps times slots."""

    sampled_tokens: int = 0
    prefilled_tokens: int = 0
    slot_steps: int = 0
    dispatches: int = 0

    def slot_use(self) -> float:
        """Share of decode work that produced a kept token, in [0, 1]."""
        return self.sampled_tokens / self.slot_steps if self.slot_steps else 0.0


@dataclasses.dataclass(eq=False)
class Handle:
    """One request inside the engine. `pending` tokens are known but not yet in the cache."""

    engine: "Engine"
    request: Request
    order: int
    pending: list[int]
    budget: int
    slot: int | None = None
    length: int = 0  # tokens in the cache
    tokens: list[int] = dataclasses.field(default_factory=list)  # sampled in this turn
    logprobs: list[float] = dataclasses.field(default_factory=list)

    def extend(self, tokens: Sequence[int], max_new_tokens: int) -> None:
        """Starts the next turn: `tokens` follow what was sampled last.

        Raises:
            ContextError: no room for the tokens and one reply token.
        """
        self.engine.check_fits(self.length + len(self.pending) + len(tokens))
        self.pending += tokens
        self.budget = max_new_tokens
        self.engine.resume(self)

    def close(self) -> None:
        """Frees the slot. The handle must not be used afterwards."""
        self.engine.release(self)


class Engine:
    """Samples from one model on one mesh."""

    def __init__(self, config: models.ModelConfig, mesh, settings: EngineSettings):
        self.settings, self.stats = settings, Stats()
        self._programs = Programs(
            config, mesh, settings.num_slots, settings.max_len, settings.decode_chunk
        )
        self._cache = self._programs.empty_cache()
        self._params, self._version = None, -1
        self._queue: deque[Handle] = deque()
        self._free = list(range(settings.num_slots))[::-1]
        self._running: list[Handle] = []
        self._submitted = 0

    def load(self, params: models.Params, version: int) -> None:
        """Samples from these parameters from now on; every turn is stamped with `version`.

        Raises:
            RuntimeError: episodes are open: their cached keys belong to the old parameters.
        """
        if self._queue or len(self._free) < self.settings.num_slots:
            raise RuntimeError("parameters cannot change while episodes are open")
        self._params, self._version, self.stats = params, version, Stats()

    def submit(self, request: Request) -> Handle:
        """Queues a request.

        Raises:
            ContextError: the prompt leaves no room for a reply.
            ValueError: an empty prompt or too many stop ids.
        """
        if self._params is None:
            raise RuntimeError("load parameters before submitting requests")
        if not request.tokens:
            raise ValueError("a request needs at least one prompt token")
        if len(request.stop_ids) > MAX_STOP_IDS:
            raise ValueError(f"{len(request.stop_ids)} stop ids, at most {MAX_STOP_IDS} can be")
        self.check_fits(len(request.tokens))
        handle = Handle(
            self, request, self._submitted, list(request.tokens), request.max_new_tokens
        )
        self._submitted += 1
        self._queue.append(handle)
        return handle

    def check_fits(self, tokens: int) -> None:
        if tokens >= self.settings.max_len:
            raise ContextError(
                f"{tokens} tokens leave no room for a reply in a context of {self.settings.max_len}"
            )

    def resume(self, handle: Handle) -> None:
        self._running.append(handle)

    def release(self, handle: Handle) -> None:
        if handle.slot is None:
            self._queue.remove(handle)
        else:
            self._free.append(handle.slot)
            handle.slot = None
        if handle in self._running:
            self._running.remove(handle)

    def advance(self) -> list[Turn]:
        """Admits, prefills and decodes once; the turns that ended, in order of submission.

        Returns an empty list when some turns still run, and also when nothing is open.

        Raises:
            RuntimeError: requests wait for a slot, but every slot is held by a handle whose turn is
                over: the caller must extend or close one first.
        """
        while self._queue and self._free:
            handle = self._queue.popleft()
            handle.slot = self._free.pop()
            self._running.append(handle)
        if self._queue and not self._running:
            raise RuntimeError("every slot is held by a finished turn: extend or close a handle")
        self._running.sort(key=lambda handle: handle.order)
        self._prefill()
        return self._decode() if self._running else []

    def compiles(self) -> int:
        return self._programs.compiles()

    def _prefill(self) -> None:
        rows, width = self.settings.prefill_rows, self.settings.prefill_chunk
        while waiting := [h for h in self._running if len(h.pending) > 1][:rows]:
            slots = np.zeros(rows, np.int32)
            tokens = np.zeros((rows, width), np.int32)
            positions = np.full((rows, width), self.settings.max_len, np.int32)
            for row, handle in enumerate(waiting):
                part = handle.pending[: min(width, len(handle.pending) - 1)]
                slots[row] = handle.slot
                tokens[row, : len(part)] = part
                positions[row, : len(part)] = handle.length + np.arange(len(part))
                del handle.pending[: len(part)]
                handle.length += len(part)
                self.stats.prefilled_tokens += len(part)
            self._cache = self._programs.prefill(
                self._params, self._cache, slots, tokens, positions
            )
            self.stats.dispatches += 1

    def _decode(self) -> list[Turn]:
        self._cache, outputs = self._programs.decode(
            self._params, self._cache, self._decode_inputs()
        )
        outputs = jax.device_get(outputs)
        self.stats.dispatches += 1
        self.stats.slot_steps += int(outputs.count.max()) * self.settings.num_slots
        turns, still = [], []
        for handle in self._running:
            count = int(outputs.count[handle.slot])
            new = outputs.tokens[handle.slot, :count].tolist()
            handle.tokens += new
            handle.logprobs += outputs.logprobs[handle.slot, :count].tolist()
            handle.pending = new[-1:]
            handle.length += count
            self.stats.sampled_tokens += count
            stopped = bool(outputs.stopped[handle.slot])
            if stopped or self._room(handle) == 0:
                turns.append(self._finish(handle, stopped))
            else:
                still.append(handle)
        self._running = still
        return turns

    def _room(self, handle: Handle) -> int:
        """Tokens that this turn may still sample."""
        context = self.settings.max_len - handle.length - 1
        return min(handle.budget - len(handle.tokens), context)

    def _finish(self, handle: Handle, stopped: bool) -> Turn:
        turn = Turn(handle, tuple(handle.tokens), tuple(handle.logprobs), stopped, self._version)
        handle.tokens, handle.logprobs = [], []
        return turn

    def _decode_inputs(self) -> DecodeInputs:
        slots = self.settings.num_slots
        token, position, budget = (np.zeros(slots, np.int32) for _ in range(3))
        seed, temperature = np.zeros(slots, np.uint32), np.zeros(slots, np.float32)
        stop = np.full((slots, MAX_STOP_IDS), -1, np.int32)
        for handle in self._running:
            slot, request = handle.slot, handle.request
            token[slot], position[slot] = handle.pending[0], handle.length
            budget[slot] = self._room(handle)
            seed[slot], temperature[slot] = request.seed, request.temperature
            stop[slot, : len(request.stop_ids)] = request.stop_ids
        return DecodeInputs(token, position, budget, seed, temperature, stop)
