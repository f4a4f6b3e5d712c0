"""Continuous batching: a slot holds one episode's cache across all its turns.

`submit` queues a request, `advance` moves everything further and returns the turns that ended,
`Handle.extend` appends the next turn's new tokens, `Handle.close` frees the slot. Only new tokens
are ever read: a turn's stop token and what follows it are prefilled when it continues, a rewritten
history from its first changed token on, and a prompt that begins like another shares its pages.

Work is cut into jobs: rows that are alike, their past gathered from the cache, one program, what it
gives put back. A few jobs are on their way at a time; between them turns begin, end and wait for
their environments, which costs nothing. Who shares a job, a slot or a page never changes a result:
prefill chunks are cut from each turn's own start, a decode chunk begins where the turn or its last
chunk ended, what a row reads and with how many others depends on its own length only, and noise is
keyed by (request seed, number of the token). Log-probs are bit-equal whatever slot, neighbours or
load a request meets (tests/sampler).
"""

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent import futures

import jax

from spade_jax import models, parallel
from spade_jax.models.cache import position_bytes
from spade_jax.sampler.handle import Handle, Turn
from spade_jax.sampler.inputs import decode_inputs, prefill_inputs
from spade_jax.sampler.memory import Memory
from spade_jax.sampler.planner import Job, Planner
from spade_jax.sampler.programs import Programs
from spade_jax.sampler.request import (
    ContextError,
    EngineSettings,
    Request,
    SettingsError,
    Stats,
)
from spade_jax.sampler.stop_strings import stop_at


class Engine:
    """Samples from one model on one mesh. Belongs to one thread."""

    def __init__(self, config: models.ModelConfig, mesh, settings: EngineSettings):
        """
        Raises:
            SettingsError: a budget is too small, or the mesh does not divide the slots.
        """
        self.settings, self.stats = settings, Stats()
        shards = parallel.row_shards(mesh)
        if settings.num_slots % shards:
            raise SettingsError(
                f"num_slots={settings.num_slots}: expected a multiple of the mesh's data * fsdp"
                f" * expert = {shards}"
            )
        pages = settings.pages(position_bytes(config), shards)
        self._programs = Programs(config, mesh, pages, settings.page, settings.decode_chunk)
        self._memory = Memory(
            self._programs, pages, settings.page, settings.num_slots // shards,
            settings.prefill_chunks[-1], self._count_parked,
        )  # fmt: skip
        self._planner = Planner(settings, shards)
        self._workers = futures.ThreadPoolExecutor(settings.streams, "sampler")
        # Programs with collectives must reach all devices in one order.
        self._in_order = threading.Lock() if mesh.size > 1 else contextlib.nullcontext()
        self._jobs: dict[futures.Future, Job] = {}
        self._clock, self._rests_since = time.monotonic, time.monotonic()
        self._ended: list[Turn] = []  # not handed out yet
        self._params, self._loaded, self._version = None, None, -1
        self._queue: deque[Handle] = deque()
        self._running: list[Handle] = []  # with a slot, in a turn
        self._submitted = self._started = 0
        self._warm = False

    @property
    def running(self) -> bool:
        """Whether some turn is under way, so that `advance` gets further."""
        return bool(self._running)

    @property
    def queued(self) -> int:
        """Requests that wait for a slot."""
        return len(self._queue)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Adds the seconds inside in which no job is under way to `stats.waited_seconds`. For a
        caller that waits for something else than the engine, which starts no job meanwhile."""
        began = self._clock()
        try:
            yield
        finally:
            if all(work.done() for work in self._jobs):
                self.stats.waited_seconds += self._clock() - max(began, self._rests_since)

    def load(self, params: models.Params, version: int) -> None:
        """Samples from these parameters from now on; every turn is stamped with `version`.

        Raises:
            RuntimeError: episodes are open: their cached keys belong to the old parameters.
        """
        self._rest()
        if params is not self._loaded:
            self._loaded, self._params = params, self._programs.ready(params)
            self._memory.forget()
        self._version, self.stats = version, Stats()

    def unload(self) -> None:
        """Lets go of the parameters and of the cache, so that both may be freed; `load` comes next.

        Raises:
            RuntimeError: as `load`.
        """
        self._rest()
        self._loaded = self._params = None
        self._memory.release()

    def submit(self, request: Request) -> Handle:
        """Queues a request.

        Raises:
            ContextError: the prompt leaves no room for a reply.
        """
        self._check_loaded()
        self._check_fits(len(request.tokens))
        handle = Handle(
            self, request, self._submitted, list(request.tokens), request.max_new_tokens,
            request.deadline(),
        )  # fmt: skip
        self._submitted += 1
        self._queue.append(handle)
        return handle

    def go_on(self, handle: Handle, tokens: list[int], budget: int, kept: int | None) -> None:
        """See `Handle.extend`."""
        row = handle.row
        if row is None or not row.idle:
            raise RuntimeError("only an open handle whose turn is over can be extended")
        known = row.length + len(handle.pending)
        kept = known if kept is None else kept
        if not 0 <= kept <= known or (kept <= row.length and not tokens):
            raise ValueError(
                f"kept={kept} of {known} tokens and {len(tokens)} new ones: expected at least one"
                " that is not in the cache"
            )
        self._check_fits(kept + len(tokens))
        if kept < row.length:
            self._memory.rewind(row, kept)
        handle.forgotten += known - kept
        handle.pending = handle.pending[: kept - row.length] + tokens
        self.stats.kept_tokens += row.length
        handle.budget, handle.deadline = budget, handle.request.deadline()
        self._run(handle)

    def release(self, handle: Handle) -> None:
        if handle in self._queue:
            self._queue.remove(handle)
        if handle in self._running:
            self._running.remove(handle)
        if handle.row is not None:
            self._memory.close(handle.row)
            handle.row = None
        self._ended = [turn for turn in self._ended if turn.handle is not handle]

    def advance(self, timeout: float | None = None) -> list[Turn]:
        """Starts what can be started; the turns that ended, in order of submission.

        Args:
            timeout: seconds to wait for the first job to end; None: as long as it takes. Nothing
                is waited for when no job is under way.

        Raises:
            RuntimeError: without a timeout, when requests wait but every slot is held by a handle
                whose turn is over: the caller must extend or close one first.
        """
        began = time.monotonic()
        self._expire()
        self._adopt()
        self._admit()
        if timeout is None and self._queue and not self._running and not self._ended:
            raise RuntimeError("every slot is held by a finished turn: extend or close a handle")
        self._start()
        self._collect(0 if self._ended else timeout)
        self._start()  # so that what runs need not wait for the caller
        self._check_moves()
        self.stats.seconds += time.monotonic() - began
        turns, self._ended = self._ended, []
        return sorted(turns, key=lambda turn: turn.handle.order)

    def warm_up(self) -> None:
        """Compiles every program, so that no later call does; the second time nothing is done.

        Raises:
            RuntimeError: no parameters are loaded, or episodes are open.
        """
        self._check_loaded()
        if self._queue or self._memory.open_rows:
            raise RuntimeError("programs are warmed up before episodes open")
        if self._warm:
            return
        before = dataclasses.replace(self.stats)
        self._memory.warm_up()
        for kind in self._planner.kinds():
            self._launch(Job(kind, [None] * self._planner.rows(kind)))
            self._collect(None)
        self._memory.release()
        self.stats, self._warm = before, True

    def compiles(self) -> int:
        """Programs compiled so far."""
        return self._programs.compiles()

    def _rest(self) -> None:
        if self._queue or self._memory.open_rows:
            raise RuntimeError("parameters cannot change while episodes are open")
        futures.wait(self._jobs)
        self._jobs.clear()  # nobody is left to whom they matter

    def _check_loaded(self) -> None:
        if self._params is None:
            raise RuntimeError("load parameters first")

    def _check_fits(self, tokens: int) -> None:
        if tokens >= self.settings.max_len:
            raise ContextError(
                f"{tokens} tokens leave no room for a reply in a context of {self.settings.max_len}"
            )

    def _count_parked(self, pages: int) -> None:
        self.stats.parked_pages += pages

    def _check_moves(self) -> None:
        """Raises RuntimeError if turns run but nothing can ever happen to them, which no sequence
        of calls should bring about."""
        if self._jobs or self._ended or not self._running:
            return
        self._start()  # the first try may have made room for the second
        now = time.monotonic()
        if not self._jobs and all(handle.deadline > now for handle in self._running):
            raise RuntimeError(f"{len(self._running)} turns run but none can go on")

    def _expire(self) -> None:
        """Ends the turns whose time is over, but those that a job is at."""
        now = time.monotonic()
        late = [handle for handle in self._queue if handle.deadline <= now]
        for handle in late:
            self._queue.remove(handle)
        late += [h for h in self._running if h.deadline <= now and not h.row.busy]
        for handle in late:
            self._end(handle, "deadline")

    def _admit(self) -> None:
        """Gives free slots to the requests that wait longest."""
        while self._queue:
            handle = self._queue[0]
            opened = self._memory.open(handle.order, handle.pending[:-1])
            if opened is None:
                return
            handle.row, handle.awaited = opened
            self._skip_shared(handle)
            self._run(self._queue.popleft())

    def _run(self, handle: Handle) -> None:
        handle.row.idle, handle.since = False, self._started
        self._running.append(handle)
        self._running.sort(key=lambda handle: handle.order)

    def _start(self) -> None:
        """Launches jobs until enough are on their way."""
        stuck: set[Handle] = set()  # no page is free for them
        while len(self._jobs) < self.settings.streams:
            self._adopt()
            now = time.monotonic()
            ready = [
                handle
                for handle in self._running
                if handle.awaited is None and not handle.row.busy
                and handle.deadline > now and handle not in stuck
            ]  # fmt: skip
            job = self._planner.choose(ready, self._started)
            if job is None:
                return
            for place, handle in job.places():
                end = handle.row.length + self._planner.growth(job.kind, handle)
                if self._memory.fit(handle.row, end):
                    handle.row.busy = True
                else:
                    stuck.add(handle)
                    job.rows[place] = None
            if any(job.rows):
                try:
                    self._launch(job)
                except BaseException:
                    _release(job)
                    raise

    def _adopt(self) -> None:
        """Lets those that wait for a common prefix have it, or read it themselves."""
        for handle in self._running:
            while handle.awaited and (handle.awaited.pages or handle.awaited.given_up):
                handle.awaited = self._memory.go_on(handle.row, handle.pending[:-1])
                self._skip_shared(handle)

    def _skip_shared(self, handle: Handle) -> None:
        """A row that begins with a common prefix need not read it."""
        del handle.pending[: handle.row.length]
        self.stats.shared_tokens += handle.row.length

    def _launch(self, job: Job) -> None:
        past = self._memory.past([h and h.row for h in job.rows], job.kind.past)
        if job.kind.width is None:
            inputs = decode_inputs(job, self.settings.max_len)
            work = self._workers.submit(self._decode, past, inputs)
        else:
            work = self._workers.submit(self._prefill, past, *prefill_inputs(job))
        self._jobs[work] = job
        self._started += 1
        self.stats.dispatches += 1

    def _prefill(self, past, tokens, lengths):
        """In a worker. The end is waited for there: whatever is put into the cache must be known,
        or the next job's past would wait for it."""
        with self._in_order:
            recent = self._programs.prefill(self._params, past, tokens, lengths)
        jax.block_until_ready(recent)
        self._rests_since = self._clock()
        return recent, None

    def _decode(self, past, inputs):
        """In a worker, as `_prefill`."""
        with self._in_order:
            recent, outputs = self._programs.decode(self._params, past, inputs)
        recent, outputs = jax.block_until_ready(recent), jax.device_get(outputs)
        self._rests_since = self._clock()
        return recent, outputs

    def _collect(self, timeout: float | None) -> None:
        """Takes in the jobs that are done, after waiting for one."""
        done = futures.wait(self._jobs, timeout, futures.FIRST_COMPLETED).done if self._jobs else ()
        for work in [work for work in self._jobs if work in done]:
            job = self._jobs.pop(work)
            _release(job)
            recent, outputs = work.result()
            if outputs is None:
                self._take_in_prefill(job, recent)
            else:
                self._take_in_decode(job, recent, outputs)
            for _, handle in job.places():
                handle.since = self._started

    def _take_in_prefill(self, job: Job, recent) -> None:
        self._memory.write([h and h.row for h in job.rows], job.kind.width, recent)
        for _, handle in job.places():
            count = self._planner.growth(job.kind, handle)
            self._memory.fill(handle.row, count)
            del handle.pending[:count]
            self.stats.prefilled_tokens += count

    def _take_in_decode(self, job: Job, recent, outputs) -> None:
        self._memory.write([h and h.row for h in job.rows], self.settings.decode_chunk, recent)
        self.stats.slot_steps += int(outputs.count.max()) * len(job.rows)
        for place, handle in job.places():
            count, request, checked = int(outputs.count[place]), handle.request, len(handle.tokens)
            sampled = handle.tokens + outputs.tokens[place, :count].tolist()
            cut = stop_at(sampled, checked, request.stop_strings, request.decode)
            count = count if cut is None else cut - checked
            handle.tokens = sampled[: checked + count]
            handle.logprobs += outputs.logprobs[place, :count].tolist()
            handle.pending = handle.tokens[-1:]
            self._memory.fill(handle.row, count)
            self.stats.sampled_tokens += count
            if end := self._ending(handle, cut is not None or bool(outputs.stopped[place])):
                self._end(handle, end)

    def _ending(self, handle: Handle, stopped: bool) -> str:
        """Why the handle's turn is over; "" when it is not."""
        if stopped:
            return "stop"
        if len(handle.tokens) == handle.budget:
            return "length"
        return "" if handle.room(self.settings.max_len) else "context"

    def _end(self, handle: Handle, end: str) -> None:
        """A turn that waits for a slot when its time is over ends closed."""
        if handle.row is not None:
            self._running.remove(handle)
            handle.row.idle, handle.awaited = True, None
            self._memory.give_up(handle.row)
        self._ended.append(
            Turn(handle, tuple(handle.tokens), tuple(handle.logprobs), end, self._version)
        )
        handle.tokens, handle.logprobs = [], []


def _release(job: Job) -> None:
    """Nothing is done with the job's rows any more."""
    for _, handle in job.places():
        handle.row.busy = False
