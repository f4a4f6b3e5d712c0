"""Slot-based sampling: a slot holds one episode's cache across all its turns.

`submit` queues a request, `advance` moves everything one dispatch further and returns the turns
that ended, `Handle.extend` appends the next turn's new tokens, `Handle.close` frees the slot. Only
new tokens are ever read: a turn's stop token and what follows it are prefilled when it continues,
and a prompt that begins like one whose slot is held is copied from there.

Slots that decode are gathered into blocks of `decode_rows`, so that idle ones cost nothing; each
reads as much of its cache as it fills. Results are deterministic all the same, for dense models and
with `decode_rows` above 0: prefill chunks are cut from each turn's own start, a decode chunk begins
where the turn or its last chunk ended, what a row reads depends on its own length, each program has
its one number of rows, and noise is keyed by (request seed, position). A request's log-probs are
bit-equal whatever slot, neighbours or load it meets (tests/sampler/test_engine.py).
"""

import dataclasses
from collections import deque
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from spade_jax import models
from spade_jax.sampler.prefixes import Prefixes
from spade_jax.sampler.programs import DecodeInputs, Programs
from spade_jax.sampler.request import (
    MAX_STOP_IDS,
    ContextError,
    EngineSettings,
    Request,
    Stats,
    check_budget,
)

PREFILLS = 4  # most prefill dispatches before running turns decode again


@dataclasses.dataclass(frozen=True)
class Turn:
    """What one turn sampled. `end`: "stop", "length", "context" or "deadline"."""

    handle: "Handle"
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    end: str
    version: int

    @property
    def stopped(self) -> bool:
        return self.end == "stop"


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
    shares: "tuple[int, Handle] | None" = None  # how many tokens to copy, and from whom
    tokens: list[int] = dataclasses.field(default_factory=list)  # sampled in this turn
    logprobs: list[float] = dataclasses.field(default_factory=list)

    def extend(
        self, tokens: Sequence[int], max_new_tokens: int, kept: int | None = None
    ) -> None:
        """Starts the next turn: `tokens` follow the first `kept` ids of the episode (None: all).

        Raises:
            ContextError: no room for the tokens and one reply token.
            RuntimeError: the present turn still runs, or the handle is closed.
        """
        check_budget(max_new_tokens)
        if self.slot is None or self in self.engine._running:
            raise RuntimeError("only an open handle whose turn is over can be extended")
        known = self.length + len(self.pending)
        kept = known if kept is None else kept
        self.engine.check_fits(kept + len(tokens))
        if kept <= self.length:  # a cut in the cache needs new tokens after it
            self.engine._prefixes.remove(self)
            self.engine._prefixes.add(self, [])
            self.length, self.pending = kept, []
        self.pending = [*self.pending[: kept - self.length], *tokens]
        self.budget = max_new_tokens
        self.engine.resume(self)

    def close(self) -> None:
        """Frees the slot, also in the middle of a turn. The handle must not be used afterwards."""
        self.engine.release(self)


class Engine:
    """Samples from one model on one mesh."""

    def __init__(self, config: models.ModelConfig, mesh, settings: EngineSettings):
        self.settings, self.stats = settings, Stats()
        slack = max(settings.decode_chunk, *settings.prefill_chunks)
        self._programs = Programs(
            config, mesh, settings.num_slots, settings.max_len, settings.decode_chunk, slack
        )
        self._cache = self._programs.empty_cache()
        self._params, self._loaded, self._version = None, None, -1
        self._queue: deque[Handle] = deque()
        self._free = list(range(settings.num_slots))[::-1]
        self._running: list[Handle] = []
        self._prefixes = Prefixes(settings.prefill_chunks[-1])
        self._submitted = 0

    def load(self, params: models.Params, version: int) -> None:
        """Samples from these parameters from now on; every turn is stamped with `version`.

        Raises:
            RuntimeError: episodes are open: their cached keys belong to the old parameters.
        """
        if self._queue or len(self._free) < self.settings.num_slots:
            raise RuntimeError("parameters cannot change while episodes are open")
        if params is not self._loaded:
            self._loaded, self._params = params, self._programs.ready(params)
        self._version, self.stats = version, Stats()

    def submit(self, request: Request) -> Handle:
        """Queues a request.

        Raises:
            ContextError: the prompt leaves no room for a reply.
        """
        if self._params is None:
            raise RuntimeError("load parameters before submitting requests")
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
        if handle in self._queue:
            self._queue.remove(handle)
        elif handle.slot is not None:
            self._prefixes.remove(handle)
            self._free.append(handle.slot)
            handle.slot = None
        if handle in self._running:
            self._running.remove(handle)

    @property
    def running(self) -> bool:
        return bool(self._running)

    def advance(self, timeout: float | None = None) -> list[Turn]:
        """Admits, prefills and decodes once; the turns that ended, in order of submission.

        Returns an empty list when some turns still run, and also when nothing is open.

        Raises:
            RuntimeError: requests wait for a slot, but every slot is held by a handle whose turn is
                over: the caller must extend or close one first.
        """
        self._admit()
        if self._queue and not self._running and timeout is None:
            raise RuntimeError("every slot is held by a finished turn: extend or close a handle")
        self._running.sort(key=lambda handle: handle.order)
        self._prefill()
        return self._decode()

    def warm_up(self) -> None:
        """Compiles every program, so that no later call does.

        Raises:
            RuntimeError: no parameters are loaded.
        """
        if self._params is None:
            raise RuntimeError("load parameters before warming up")
        for past in self._programs.past_lengths:
            for width in self.settings.prefill_chunks:
                self._read([], width, past)
            for top_k in (0, 1):
                inputs = self._decode_inputs([])
                inputs = inputs._replace(top_k=inputs.top_k + top_k)
                self._cache, _ = self._programs.decode(self._params, self._cache, inputs, past)
            nobody = np.full(1, self.settings.num_slots, np.int32)
            self._cache = self._programs.copy(self._cache, 0 * nobody, nobody, past)

    def compiles(self) -> int:
        return self._programs.compiles()

    def _admit(self) -> None:
        """Gives free slots to the requests that wait longest."""
        while self._queue and self._free:
            handle = self._queue.popleft()
            handle.slot = self._free.pop()
            handle.shares = self._shared(handle)
            self._prefixes.add(handle, handle.pending[:-1])
            self._running.append(handle)

    def _shared(self, handle: Handle) -> tuple[int, Handle] | None:
        """What the handle can copy: of a row that was given out before it, so that none waits for
        the other."""
        return self._prefixes.longest(
            handle.pending[:-1], lambda owner: owner.order < handle.order
        )

    def _prefill(self) -> None:
        """Reads pending tokens: all but the last, which the decode program reads."""
        for _ in range(PREFILLS):
            self._copy_shared()
            waiting = [h for h in self._running if len(h.pending) > 1 and h.shares is None]
            if not waiting:
                return
            width, past = self._shape(waiting[0])
            alike = [handle for handle in waiting if self._shape(handle) == (width, past)]
            self._read(alike[: self._prefill_rows(width)], width, past)

    def _copy_shared(self) -> None:
        for handle in self._running:
            if handle.shares is None:
                continue
            length, owner = handle.shares
            if owner.slot is None:  # it was closed before it had read that far
                handle.shares = self._shared(handle)
            elif owner.length >= length:
                past = self._programs.past_for(length)
                source, target = (np.full(1, h.slot, np.int32) for h in (owner, handle))
                self._cache = self._programs.copy(self._cache, source, target, past)
                self.stats.dispatches += 1
                self.stats.shared_tokens += length
                handle.length, handle.shares = length, None
                del handle.pending[:length]

    def _shape(self, handle: Handle) -> tuple[int, int]:
        """`(row length, past)` of the handle's next prefill."""
        left = len(handle.pending) - 1
        chunks = self.settings.prefill_chunks
        width = next((chunk for chunk in chunks if chunk >= left), chunks[-1])
        return width, self._programs.past_for(handle.length)

    def _prefill_rows(self, width: int) -> int:
        return max(1, min(self.settings.prefill_tokens // width, self.settings.num_slots))

    def _read(self, handles: Sequence[Handle], width: int, past: int) -> None:
        """Prefills one chunk of each handle."""
        rows = self._prefill_rows(width)
        slots = np.full(rows, self.settings.num_slots, np.int32)
        tokens, lengths = np.zeros((rows, width), np.int32), np.zeros(rows, np.int32)
        for row, handle in enumerate(handles):
            part = handle.pending[: min(width, len(handle.pending) - 1)]
            slots[row], lengths[row], tokens[row, : len(part)] = handle.slot, handle.length, part
            del handle.pending[: len(part)]
            handle.length += len(part)
            self.stats.prefilled_tokens += len(part)
        self._cache = self._programs.prefill(
            self._params, self._cache, slots, tokens, lengths, past
        )
        self.stats.dispatches += 1

    def _decode(self) -> list[Turn]:
        """One chunk of every turn that has nothing left to read. All blocks are dispatched before
        the first result is waited for."""
        started = []
        for block, past in self._blocks():
            inputs = self._decode_inputs(block)
            self._cache, outputs = self._programs.decode(self._params, self._cache, inputs, past)
            started.append((block, outputs))
        turns = []
        for block, outputs in started:
            turns += self._take_in(block, jax.device_get(outputs))
        ended = {turn.handle for turn in turns}
        self._running = [handle for handle in self._running if handle not in ended]
        return sorted(turns, key=lambda turn: turn.handle.order)

    def _blocks(self) -> Iterator[tuple[list[Handle], int]]:
        """Turns that decode together, and the past that they read. With `decode_rows`, whether
        neighbours have a top-k or top-p does not choose the program of a request that has none."""
        ready = [handle for handle in self._running if len(handle.pending) == 1]
        if not self.settings.decode_rows:
            if ready:
                yield ready, self._programs.past_for(max(handle.length for handle in ready))
            return
        kinds: dict[tuple[int, bool], list[Handle]] = {}
        for handle in ready:
            kind = self._programs.past_for(handle.length), handle.request.is_narrow
            kinds.setdefault(kind, []).append(handle)
        for (past, _), alike in kinds.items():
            for start in range(0, len(alike), self._decode_rows()):
                yield alike[start : start + self._decode_rows()], past

    def _decode_rows(self) -> int:
        slots = self.settings.num_slots
        return min(self.settings.decode_rows or slots, slots)

    def _take_in(self, block: Sequence[Handle], outputs) -> list[Turn]:
        """Adds what a block sampled to its handles; the turns that ended."""
        self.stats.dispatches += 1
        self.stats.slot_steps += int(outputs.count.max()) * self._decode_rows()
        turns = []
        for row, handle in self._rows(block):
            count = int(outputs.count[row])
            new = outputs.tokens[row, :count].tolist()
            handle.tokens += new
            handle.logprobs += outputs.logprobs[row, :count].tolist()
            handle.pending = new[-1:]
            handle.length += count
            self.stats.sampled_tokens += count
            stopped = bool(outputs.stopped[row])
            if stopped or self._room(handle) == 0:
                cut = "length" if len(handle.tokens) == handle.budget else "context"
                turns.append(self._finish(handle, "stop" if stopped else cut))
        return turns

    def _rows(self, block: Sequence[Handle]) -> Iterator[tuple[int, Handle]]:
        """The row of each handle in the arrays of a decode dispatch: its slot if they hold all."""
        whole = self._decode_rows() == self.settings.num_slots
        for row, handle in enumerate(block):
            yield (handle.slot if whole else row), handle

    def _room(self, handle: Handle) -> int:
        """Tokens that this turn may still sample."""
        context = self.settings.max_len - handle.length - 1
        return min(handle.budget - len(handle.tokens), context)

    def _finish(self, handle: Handle, end: str) -> Turn:
        turn = Turn(handle, tuple(handle.tokens), tuple(handle.logprobs), end, self._version)
        handle.tokens, handle.logprobs = [], []
        return turn

    def _decode_inputs(self, block: Sequence[Handle]) -> DecodeInputs:
        rows = self._decode_rows()
        token, length, budget, top_k = (np.zeros(rows, np.int32) for _ in range(4))
        slot = np.full(rows, self.settings.num_slots, np.int32)
        seed, temperature = np.zeros(rows, np.uint32), np.zeros(rows, np.float32)
        top_p = np.ones(rows, np.float32)
        stop = np.full((rows, MAX_STOP_IDS), -1, np.int32)
        for row, handle in self._rows(block):
            request = handle.request
            slot[row], token[row], length[row] = handle.slot, handle.pending[0], handle.length
            budget[row] = self._room(handle)
            seed[row], temperature[row] = request.seed, request.temperature
            top_k[row], top_p[row] = request.top_k, request.top_p
            stop[row, : len(request.stop_ids)] = request.stop_ids
        return DecodeInputs(slot, token, length, budget, seed, temperature, top_k, top_p, stop)
