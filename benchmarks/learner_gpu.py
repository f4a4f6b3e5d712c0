"""python -m benchmarks.learner_gpu: the learner's programs on one CUDA GPU, beside its limits.

A model in the shapes of Qwen3-4B, computed in bf16 with weights, gradients and optimizer in fp32,
of as many layers as the device's memory holds. A case is an update of several micro-batches of full
rows, as `train.py` makes it: gradients, their sum, one optimizer step. `of peak` is the share of
the best measured rate of a bf16 matrix product: six operations for each weight and token, and
attention to what stands before a token; `computed of peak` counts what is recomputed in the
backward pass as well. Options are those of `benchmarks.gpu`. Takes five minutes.
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
from benchmarks.learner_workload import computed_flops, useful_flops
from benchmarks.sampler_workload import ModelShape
from spade_jax import models, parallel
from spade_jax.rl import Batch, Learner, LossSettings, OptimizerSettings

COLUMNS = {
    "layers": "layers", "ms a micro-batch": "ms", "tok/s": "tok_s", "of peak": "of_peak",
    "computed of peak": "computed_of_peak", "update tok/s": "update_tok_s",
    "update of peak": "update_of_peak", "sum ms": "add_ms", "optimizer ms": "apply_ms",
    "first call s": "first_s", "peak GB so far": "peak_gb",
}  # fmt: skip
CHUNK = 1024  # positions of a chunk of log-probs
STATE_BYTES = 20  # of a parameter: itself, two moments, a gradient and the sum of those before
RESERVE = 14e9  # bytes for activations, scores and logits


@dataclasses.dataclass(frozen=True)
class Case:
    """`micro` micro-batches of `rows` full rows of `length` positions."""

    rows: int
    length: int
    micro: int

    @property
    def name(self) -> str:
        return f"update {self.micro} x {self.rows} x {self.length}"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What is run; `squares`, `triad` and `least` as in `sampler_gpu.Sizes`."""

    config: models.ModelConfig
    cases: tuple[Case, ...]
    squares: tuple[int, ...]
    triad: int
    least: float

    @property
    def shape(self) -> ModelShape:
        return gpu.shape_of(self.config)


def full_sizes(memory: float) -> Sizes:
    """
    Args:
        memory: bytes of the device.
    """
    cases = Case(4, 2048, 4), Case(8, 2048, 4), Case(1, 8192, 4), Case(1, 32_768, 1)
    config = fitting(models.preset("qwen3_4b"), memory)
    return Sizes(config, cases, squares=(4096, 8192, 16_384), triad=2**30, least=0.3)


def tiny_sizes() -> Sizes:
    config = models.preset("tiny", dtype="bfloat16", remat="full", scan_unroll=1)
    return Sizes(config, (Case(2, 16, 2), Case(1, 32, 1)), (64, 128), 2**16, least=0.0)


def fitting(config: models.ModelConfig, memory: float) -> models.ModelConfig:
    """The model with as many of its layers as fit, one at least."""
    count = [num_params(dataclasses.replace(config, num_layers=layers)) for layers in (1, 2)]
    layer, ends = count[1] - count[0], 2 * count[0] - count[1]
    room = (memory - RESERVE) / STATE_BYTES - ends
    return dataclasses.replace(
        config, num_layers=max(1, min(config.num_layers, int(room / layer)))
    )


def num_params(config: models.ModelConfig) -> int:
    return models.num_params(jax.eval_shape(lambda: models.init(config, jax.random.key(0))))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 if a case failed, 2 without a GPU."""
    options = gpu.options(__doc__.splitlines()[0], arguments)
    if gpu.missing("learner_gpu", options):
        return 2
    memory = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    sizes = tiny_sizes() if options.tiny else full_sizes(memory)
    end = time.monotonic() + options.seconds
    flops = max(roofline.matmul_rate(size, sizes.config.dtype) for size in sizes.squares)
    peaks = roofline.Peaks(flops, roofline.bandwidth(sizes.triad), {})
    bench = Bench(sizes, peaks)
    cases = [(case.name, functools.partial(bench.measure, case)) for case in sizes.cases]
    return gpu.run("learner", gpu.about(peaks), cases, COLUMNS, options, end)


class Bench:
    """One learner, whose state goes on from case to case."""

    def __init__(self, sizes: Sizes, peaks: roofline.Peaks):
        self.sizes, self.peaks = sizes, peaks
        mesh = parallel.make_mesh({}, jax.devices()[:1])
        settings, optimizer = LossSettings(), OptimizerSettings(1e-6)
        self.learner = Learner(sizes.config, mesh, "policy", settings, optimizer, CHUNK)
        self._state = self._total = None

    def measure(self, case: Case) -> dict:
        """`ms` is of the gradients of one micro-batch; the first call compiles."""
        learner, batch = self.learner, full_batch(case, self.sizes.config.vocab_size)
        best = functools.partial(roofline.best_seconds, least=self.sizes.least)
        self._state = self._state or learner.init(jax.random.key(0))
        first_s, (gradients, _) = gpu.timed(self._gradients, batch)
        seconds = best(self._gradients, batch)
        self._total, _ = self._gradients(batch)
        add_s = best(self._add, gradients)
        self._total = None
        apply_s = best(self._apply, gradients)
        del gradients
        update_s = best(self._update, batch, case.micro)
        tokens = case.rows * case.length
        useful, computed = operations(self.sizes, case)
        rate = 1 / self.peaks.flops
        return {
            "layers": self.sizes.config.num_layers, "ms": 1e3 * seconds, "tok_s": tokens / seconds,
            "of_peak": useful / seconds * rate, "computed_of_peak": computed / seconds * rate,
            "update_tok_s": case.micro * tokens / update_s,
            "update_of_peak": case.micro * useful / update_s * rate,
            "add_ms": 1e3 * add_s, "apply_ms": 1e3 * apply_s, "first_s": first_s,
        }  # fmt: skip

    def _gradients(self, batch: Batch):
        return self.learner.gradients(self._state.params, batch, 1.0)

    def _add(self, gradients):
        self._total = self.learner.add(self._total, gradients)
        return self._total

    def _apply(self, gradients):
        self._state, statistics = self.learner.apply(self._state, gradients)
        return self._state, statistics

    def _update(self, batch: Batch, micro: int):
        total = None
        for _ in range(micro):
            gradients, _ = self._gradients(batch)
            total = self.learner.add(total, gradients)
            del gradients
        return self._apply(total)


def operations(sizes: Sizes, case: Case) -> tuple[float, float]:
    """Of one micro-batch: what it needs at least, and what our program computes."""
    positions = case.rows * case.length
    chunk = min(CHUNK, positions)
    logits = -(-positions // chunk) * chunk
    useful = useful_flops(sizes.shape, [case.length + 1] * case.rows)
    remat = sizes.config.remat == "full"
    return useful, computed_flops(sizes.shape, case.rows, case.length, remat, logits)


def full_batch(case: Case, vocab: int) -> Batch:
    """Rows that one trajectory fills, of which every token is trained."""
    rng, shape = np.random.default_rng(0), (case.rows, case.length)
    ids = rng.integers(vocab, size=(case.rows, case.length + 1), dtype=np.int32)
    positions = np.broadcast_to(np.arange(case.length, dtype=np.int32), shape)
    return Batch(
        tokens=ids[:, :-1], positions=positions, segment_ids=np.ones(shape, np.int32),
        targets=ids[:, 1:], weights=np.full(shape, 1 / np.prod(shape), np.float32),
        advantages=rng.normal(size=shape).astype(np.float32),
        logprobs=np.full(shape, -np.log(vocab), np.float32),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
