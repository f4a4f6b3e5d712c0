"""python -m benchmarks.learner_profile: where the time of an update goes on CPU.

The parts of one update of the `ragged` batch of `benchmarks.learner`, each a program by itself,
then what the update takes with other settings. Times are the least of `REPEATS` calls,
in CPU milliseconds of all threads. `of peak` is the share of the best rate of a big matrix product
by CPU seconds, what is computed twice and padding included. A gradient includes its forward pass.
"""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

from benchmarks.learner_ours import CHUNK, PackedTrainer
from benchmarks.learner_worker import SQUARES, matmul_rates, seconds
from benchmarks.learner_workload import PARTS, computed_flops, draw_batch
from benchmarks.sampler_workload import ModelShape
from benchmarks.tables import print_header, print_row
from spade_jax import models
from spade_jax.rl.logprobs import token_logprobs

REPEATS = 3
Timed = tuple[str, Callable[[], object], float]  # name, call, operations of its matrix products


def parts(shape: ModelShape, trainer: PackedTrainer) -> Iterator[Timed]:
    """Parts of an update in one micro-batch, and the whole."""
    learner, config, params = trainer.learner, trainer.config, trainer.state.params
    (packed,) = trainer.batches()
    batch = jax.device_put(packed)
    blocks = computed_flops(shape, trainer.rows, trainer.length, False, 0) / 3
    head = (trainer.flops - 3 * blocks) / 4

    kernels = models.choose_kernels(config, learner.mesh)

    def hidden(params):
        return models.hidden_packed(
            config, params, batch.tokens, batch.positions, batch.segment_ids, kernels
        )

    def logprobs(params, states):
        return token_logprobs(config, params, states, batch.targets, 1.0, CHUNK, learner.mesh)

    run_hidden, run_logprobs = jax.jit(hidden), jax.jit(logprobs)
    hidden_gradient = jax.jit(jax.grad(lambda params: hidden(params).sum()))
    logprobs_gradient = jax.jit(jax.grad(lambda *both: logprobs(*both)[0].sum(), (0, 1)))
    states = run_hidden(params)
    gradients, _ = learner.gradients(params, packed, 1.0)
    zeros = jax.tree.map(jnp.zeros_like, gradients)
    yield "packing, on the host", lambda: list(trainer.batches()), 0.0
    yield "transfer", lambda: jax.device_put(packed), 0.0
    yield "blocks, forward", lambda: run_hidden(params), blocks
    yield "blocks, gradient", lambda: hidden_gradient(params), 3 * blocks
    yield "log-probs, forward", lambda: run_logprobs(params, states), head
    yield "log-probs, gradient", lambda: logprobs_gradient(params, states), 4 * head
    yield "gradients", lambda: learner.gradients(params, packed, 1.0), trainer.flops
    yield "sum of two", lambda: learner.add(jax.tree.map(jnp.copy, zeros), gradients), 0.0
    yield "update", trainer.step, trainer.flops


def settings(shape: ModelShape, batch) -> Iterator[Timed]:
    """Updates with other settings."""
    for name, micro, chunk, changes in (
        ("as it is", 1, CHUNK, {}),
        ("layers scanned", 1, CHUNK, {"scan_unroll": 1}),
        ("blocks recomputed", 1, CHUNK, {"remat": "full"}),
        ("chunks of 256", 1, 256, {}),
        ("one chunk", 1, 1 << 20, {}),
        ("two micro-batches", 2, CHUNK, {}),
        ("four micro-batches", 4, CHUNK, {}),
    ):
        trainer = PackedTrainer(shape, batch, micro, chunk, **changes)
        yield f"update, {name}", trainer.step, trainer.flops
    trainer = PackedTrainer(shape, batch, 1)
    (packed,) = trainer.batches()

    def fused():
        trainer.state, statistics = trainer.learner.step(trainer.state, packed)
        return trainer.state, statistics

    yield "update, in one program that takes its state over", fused, trainer.flops


def main() -> None:
    shape = ModelShape()
    batch = draw_batch(PARTS["ragged"], shape.vocab)
    peak = max(matmul_rates(size)["cpu"] for size in SQUARES)
    print_header(["part", "CPU ms", "of peak"])
    for several in (parts(shape, PackedTrainer(shape, batch, 1)), settings(shape, batch)):
        for name, call, flops in several:
            call()  # compiles
            took = min(seconds(call)[1] for _ in range(REPEATS))
            print_row([name, 1e3 * took, flops / took / peak if flops else "-"])


if __name__ == "__main__":
    main()
