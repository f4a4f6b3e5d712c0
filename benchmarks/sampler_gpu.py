"""python -m benchmarks.sampler_gpu: the sampler's programs on one CUDA GPU, beside its limits.

A bf16 model of random weights in the shapes of Qwen3-4B. A decode or prefill case is one dispatch
of the engine over rows whose past is full: the program alone, beside the least time for its bytes
and operations at the rates of the machine, measured first; and the whole job, which gathers the
past before and writes what is new behind. The layers run in one scan (`stacked`) or are unrolled,
see `models.unstack`. The engine case is a ragged load as in `sampler_workload`.

Options are those of `benchmarks.gpu`. Takes five minutes and less than 60 GB of device memory.
"""

import dataclasses
import functools
import sys
import time
from collections.abc import Sequence

import jax
import numpy as np

from benchmarks import gpu
from benchmarks import sampler_roofline as roofline
from benchmarks.sampler_workload import ModelShape, Part, Reply, draw_prompts
from spade_jax import models, parallel
from spade_jax.sampler import Engine, EngineSettings, Request
from spade_jax.sampler.programs import DecodeInputs, Programs
from spade_jax.sampler.request import MAX_STOP_IDS

COLUMNS = {
    "ms": "ms", "least ms": "least_ms", "tok/s": "tok_s", "of limit": "of_limit",
    "job tok/s": "job_tok_s", "job of limit": "job_of_limit", "take ms": "take_ms",
    "put ms": "put_ms", "slot use": "slot_use", "compiles": "compiles", "first call s": "first_s",
    "peak GB so far": "peak_gb",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Case:
    """Attributes:
    kind: "decode" of one chunk, "prefill" or "engine".
    past: positions of each row that are filled, and read.
    width: new tokens of each row of a prefill.
    unstack: see `Programs`.
    """

    kind: str
    rows: int = 0
    past: int = 0
    width: int = 0
    unstack: bool = False

    @property
    def name(self) -> str:
        layout = "unstacked" if self.unstack else "stacked"
        if self.kind == "engine":
            return f"engine {layout}"
        new = f"{self.rows} x {self.width}" if self.width else f"{self.rows}"
        return f"{self.kind} {new} at {self.past} {layout}"


def cases(decode: Sequence[tuple], prefill: Sequence[tuple], first: int) -> list[Case]:
    """Both layouts of each shape, with the engine between the `first` shapes and the rest.

    Args:
        decode: `(rows, past)`.
        prefill: `(rows, width, past)`.
        first: how many of either come first.
    """
    decodes = [Case("decode", rows, past) for rows, past in decode]
    prefills = [Case("prefill", rows, past, width) for rows, width, past in prefill]
    soon = decodes[:first] + prefills[:first]
    late = decodes[first:] + prefills[first:]

    def both(stacked):
        return stacked + [dataclasses.replace(case, unstack=True) for case in stacked]

    return both(soon) + [Case("engine")] + both(late)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What is run.

    Attributes:
        squares: rows of the matrices whose product is timed.
        triad: numbers of the arrays whose bandwidth is.
        page, chunk: of the cache, and of a decode.
        part, settings: the engine's load and the engine.
        least: seconds for each measurement.
    """

    config: models.ModelConfig
    squares: tuple[int, ...]
    triad: int
    page: int
    chunk: int
    cases: list[Case]
    part: Part
    settings: EngineSettings
    least: float

    @property
    def shape(self) -> ModelShape:
        return gpu.shape_of(self.config)

    def new(self, case: Case) -> int:
        """Tokens that each row of a job gets."""
        return case.width or self.chunk

    def touched(self, case: Case) -> int:
        """Pages of a row that a job may write to, as `Memory.write` counts them."""
        return -(-(self.new(case) - 1) // self.page) + 1

    @property
    def pages(self) -> int:
        """Pages that the widest job writes to, and the one that is nobody's."""
        return 1 + max(case.rows * self.touched(case) for case in self.cases)


def full_sizes() -> Sizes:
    decode = (64, 512), (64, 4096), (8, 512), (128, 512), (8, 4096)
    prefill = (4, 512, 0), (1, 2048, 2048), (1, 2048, 0), (4, 512, 2048)
    settings = EngineSettings(
        num_slots=64, max_len=640, page=320, prefill_tokens=2048, prefill_chunks=(320,),
        decode_rows=64, decode_chunk=32,
    )  # fmt: skip
    return Sizes(
        models.preset("qwen3_4b"), squares=(4096, 8192, 16_384), triad=2**30, page=64, chunk=32,
        cases=cases(decode, prefill, first=2), settings=settings, least=0.3,
        part=Part("ragged", slots=64, max_len=640, prompts=128, prompt=256, max_new=256),
    )  # fmt: skip


def tiny_sizes() -> Sizes:
    settings = EngineSettings(
        num_slots=4, max_len=24, page=24, prefill_tokens=32, prefill_chunks=(16,), decode_rows=4,
        decode_chunk=4,
    )  # fmt: skip
    return Sizes(
        models.preset("tiny", dtype="bfloat16", scan_unroll=1), squares=(64, 128), triad=2**16,
        page=8, chunk=4, cases=cases([(4, 16)], [(2, 12, 16)], first=1),
        settings=settings, least=0.0,
        part=Part("ragged", slots=4, max_len=24, prompts=6, prompt=12, max_new=8),
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 if a case failed, 2 without a GPU."""
    options = gpu.options(__doc__.splitlines()[0], arguments)
    if gpu.missing("sampler_gpu", options):
        return 2
    sizes = tiny_sizes() if options.tiny else full_sizes()
    end = time.monotonic() + options.seconds
    peaks = measured_peaks(sizes)
    bench = Bench(sizes, peaks)
    cases = [(case.name, functools.partial(measure, bench, case)) for case in sizes.cases]
    return gpu.run("sampler", gpu.about(peaks), cases, COLUMNS, options, end)


def measured_peaks(sizes: Sizes) -> roofline.Peaks:
    flops = max(roofline.matmul_rate(size, sizes.config.dtype) for size in sizes.squares)
    return roofline.Peaks(flops, roofline.bandwidth(sizes.triad), {})


def measure(bench: "Bench", case: Case) -> dict:
    return (measure_engine if case.kind == "engine" else measure_job)(bench, case)


@functools.partial(jax.jit, static_argnums=0)
def random_params(config: models.ModelConfig, key: jax.Array) -> models.Params:
    """As the engine is given them, in the model's own dtype."""
    params = parallel.unbox(models.init(config, key))
    return jax.tree.map(lambda leaf: leaf.astype(config.dtype), params)


@jax.jit
def noise(zeros: jax.Array) -> jax.Array:
    return zeros + jax.random.normal(jax.random.key(0), zeros.shape, zeros.dtype)


class Layout:
    """Programs of one layout, and parameters as they take them."""

    def __init__(self, sizes: Sizes, mesh, unstack: bool):
        self.unstack = unstack
        self.programs = Programs(sizes.config, mesh, sizes.pages, sizes.page, sizes.chunk, unstack)
        self.params = self.programs.ready(random_params(sizes.config, jax.random.key(0)))

    def full_cache(self) -> models.Cache:
        return jax.tree.map(noise, self.programs.empty_cache())


class Bench:
    """What the cases share: sizes, peaks, and the latest layout, whose parameters fill memory."""

    def __init__(self, sizes: Sizes, peaks: roofline.Peaks):
        self.sizes, self.peaks = sizes, peaks
        self.mesh = parallel.make_mesh({}, jax.devices()[:1])
        self._latest: Layout | None = None

    def layout(self, unstack: bool) -> Layout:
        if self._latest is None or self._latest.unstack != unstack:
            self._latest = None  # its memory is free before the next one needs its own
            self._latest = Layout(self.sizes, self.mesh, unstack)
        return self._latest


class Job:
    """One dispatch of the engine, in parts.

    Rows read the same pages over and over, for the whole past would not fit beside its copy; each
    writes to pages of its own, from another place in the first one.
    """

    def __init__(self, sizes: Sizes, layout: Layout, case: Case):
        self._programs, self._params = layout.programs, layout.params
        self._cache = layout.full_cache()
        read, touched = case.past // sizes.page, sizes.touched(case)
        table = np.arange(case.rows * read, dtype=np.int32).reshape(case.rows, read)
        self._read = 1 + table % (sizes.pages - 1)
        written = np.arange(case.rows * touched, dtype=np.int32)
        self._written = 1 + written.reshape(case.rows, touched)
        self._offsets = np.arange(case.rows, dtype=np.int32) % sizes.page
        if case.width:
            rng = np.random.default_rng(0)
            shape, vocab = (case.rows, case.width), sizes.config.vocab_size
            self._tokens = rng.integers(vocab, size=shape, dtype=np.int32)
            self._lengths = np.full(case.rows, case.past, np.int32)
            self.compute = self._prefill
        else:
            self._inputs = decode_inputs(case.rows, case.past, sizes.chunk)
            self.compute = self._decode

    def take(self) -> models.Cache:
        return self._programs.take(self._cache, self._read)

    def _prefill(self, past):
        return self._programs.prefill(self._params, past, self._tokens, self._lengths), None

    def _decode(self, past):
        return self._programs.decode(self._params, past, self._inputs)

    def put(self, recent) -> models.Cache:
        self._cache = self._programs.put(self._cache, self._written, self._offsets, recent)
        return self._cache

    def whole(self) -> models.Cache:
        """All of it, with the waits of the engine."""
        recent, outputs = self.compute(self.take())
        jax.block_until_ready(recent)
        jax.device_get(outputs)
        return self.put(recent)


def decode_inputs(rows: int, length: int, budget: int) -> DecodeInputs:
    """Rows that sample their whole budget."""
    return DecodeInputs(
        token=np.arange(rows, dtype=np.int32), length=np.full(rows, length, np.int32),
        budget=np.full(rows, budget, np.int32), seed=np.arange(rows, dtype=np.uint32),
        noise=np.full(rows, length + 1, np.int32), temperature=np.ones(rows, np.float32),
        top_k=np.zeros(rows, np.int32),
        top_p=np.ones(rows, np.float32), stop=np.full((rows, MAX_STOP_IDS), -1, np.int32),
    )  # fmt: skip


def measure_job(bench: Bench, case: Case) -> dict:
    """`ms` is of a decode step or of a whole prefill; the first call compiles."""
    sizes = bench.sizes
    job = Job(sizes, bench.layout(case.unstack), case)
    best = functools.partial(roofline.best_seconds, least=sizes.least)
    past = job.take()
    first_s, (recent, outputs) = gpu.timed(job.compute, past)
    if outputs is not None and (outputs.count != sizes.chunk).any():
        raise RuntimeError(f"rows sampled {outputs.count} tokens of {sizes.chunk}")
    seconds = best(job.compute, past)
    del past, outputs
    put = best(job.put, recent)
    del recent
    take, whole = best(job.take), best(job.whole)
    tokens, least = case.rows * sizes.new(case), limit(sizes, case, bench.peaks)
    steps = 1 if case.width else sizes.chunk
    return {
        "ms": 1e3 * seconds / steps, "least_ms": 1e3 * least / steps,
        "tok_s": tokens / seconds, "of_limit": least / seconds,
        "job_tok_s": tokens / whole, "job_of_limit": least / whole,
        "take_ms": 1e3 * take, "put_ms": 1e3 * put, "first_s": first_s,
    }  # fmt: skip


def limit(sizes: Sizes, case: Case, peaks: roofline.Peaks) -> float:
    """Least seconds of the case's program: see `roofline.roof`. A prefill needs no head; a decode
    reads all parameters, and the keys and values so far, once per step."""
    prompt, sampled = case.past + case.width + 1, 0 if case.width else sizes.chunk
    replies = [Reply(case.past, prompt, sampled)] * case.rows
    return roofline.roof(sizes.shape, [replies], case.rows, peaks)


def measure_engine(bench: Bench, case: Case) -> dict:
    """`tok_s` counts sampled tokens; the time is that of prefills, too."""
    sizes = bench.sizes
    engine = Engine(sizes.config, bench.mesh, sizes.settings)
    engine.load(bench.layout(case.unstack).params, 0)
    first_s, _ = gpu.timed(engine.warm_up)
    before = engine.compiles()
    prompts = draw_prompts(sizes.part, sizes.config.vocab_size, 0)
    budgets = ragged_budgets(sizes.part)
    for seed, (prompt, budget) in enumerate(zip(prompts, budgets, strict=True)):
        engine.submit(Request(prompt, budget, seed, temperature=1.0, stop_ids=()))
    while engine.running or engine.queued:
        for turn in engine.advance():
            turn.handle.close()
    stats = engine.stats
    if stats.sampled_tokens != sum(budgets):
        raise RuntimeError(f"{stats.sampled_tokens} tokens sampled, {sum(budgets)} expected")
    call = [Reply(0, len(p), budget) for p, budget in zip(prompts, budgets, strict=True)]
    least = roofline.roof(sizes.shape, [call], sizes.part.slots, bench.peaks)
    return {
        "tok_s": stats.rate(), "of_limit": least / stats.seconds, "slot_use": stats.slot_use(),
        "compiles": engine.compiles() - before, "first_s": first_s,
        "sampled": stats.sampled_tokens, "prefilled": stats.prefilled_tokens,
        "dispatches": stats.dispatches, "seconds": stats.seconds,
    }  # fmt: skip


def ragged_budgets(part: Part) -> list[int]:
    """Lengths as stop ids make them in `sampler_workload`, geometric and cut, with the mean at the
    same share of `max_new`. They are given as budgets, for no 128 stop ids of so large a vocabulary
    are likely enough to end a reply."""
    rng = np.random.default_rng(0)
    chance = part.num_stop / 4096 * 128 / part.max_new
    return np.minimum(rng.geometric(chance, part.prompts), part.max_new).tolist()


if __name__ == "__main__":
    sys.exit(main())
