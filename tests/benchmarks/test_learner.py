"""The logic of `benchmarks.learner`: equal work, what it counts, its ratios."""

import jax
import numpy as np
import pytest

from benchmarks import learner, learner_ours, learner_profile, sampler_roofline
from benchmarks.beside_tunix import UnequalError
from benchmarks.learner_workload import (
    PARTS,
    Part,
    computed_flops,
    draw_batch,
    draw_weights,
    useful_flops,
)
from benchmarks.sampler_workload import ModelShape

TINY = ModelShape(2, 64, 4, 2, 16, 128, vocab=512)
RAGGED, EQUAL = Part("r", 6, 8, 12), Part("e", 6, 8, 12, ragged=False)


@pytest.fixture(scope="module")
def ragged():
    batch = draw_batch(RAGGED, TINY.vocab)
    return batch, learner_ours.make_trainer(TINY, batch, 1)


def test_a_ragged_batch_needs_packing_and_an_equal_one_does_not():
    ragged, equal = (draw_batch(PARTS[name], 4096) for name in ("ragged", "equal"))
    assert len(set(ragged.lengths)) > 10 and len(set(equal.lengths)) == 1
    longest = sum(ragged.part.most)
    assert max(ragged.lengths) <= longest
    assert sum(ragged.lengths) < 0.6 * longest * len(ragged.lengths)
    assert min(map(len, ragged.replies)) > 0
    assert equal.lengths[0] == sum(equal.part.most)


def test_the_trainer_counts_the_tokens_that_its_loss_counts(ragged):
    batch, trainer = ragged
    assert trainer.trained == batch.trained == sum(map(len, batch.replies))
    positions = trainer.rows * trainer.length
    assert trainer.padding == positions - sum(length - 1 for length in batch.lengths) > 0
    equal = learner_ours.make_trainer(TINY, draw_batch(EQUAL, TINY.vocab), 2)
    assert (equal.rows, equal.length, equal.padding) == (3, 19, 0)


def test_the_trainer_has_the_shape_asked_for(ragged):
    _, trainer = ragged
    norms = 2 * (2 * 64 + 2 * 16) + 64
    blocks, head = sampler_roofline.block_params(TINY), sampler_roofline.head_params(TINY)
    assert trainer.num_params == blocks + 2 * head + norms
    assert trainer.num_params == sum(leaf.size for leaf in draw_weights(TINY).values())


def test_micro_batches_change_neither_loss_nor_gradient(ragged):
    batch, trainer = ragged
    whole = trainer.step()
    assert whole[0] != 0 and whole[1] > 0
    cut = learner_ours.make_trainer(TINY, batch, 2)
    assert len(list(cut.batches())) == 2
    np.testing.assert_allclose(cut.step(), whole, rtol=1e-4)


def test_an_update_moves_the_weights(ragged):
    _, trainer = ragged
    before = jax.device_get(trainer.state.params["head"])
    trainer.step()
    assert np.any(before != jax.device_get(trainer.state.params["head"]))


@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize("width", [64, 128])
def test_computed_operations_are_those_that_xla_counts(remat, width):
    """It counts what is no matrix product, too: a thirtieth at these sizes, less at larger ones."""
    shape = ModelShape(2, width, 4, 2, width // 4, 4 * width, vocab=512)
    batch = draw_batch(Part("p", 4, 32, 32), shape.vocab)
    trainer = learner_ours.PackedTrainer(shape, batch, 1, remat="full" if remat else "none")
    (packed,) = trainer.batches()
    assert packed.tokens.size == trainer.rows * trainer.length < learner_ours.CHUNK
    program = trainer.learner._gradients.lower(trainer.state.params, packed, 1.0, None)
    counted = program.cost_analysis()["flops"]
    ours = computed_flops(shape, trainer.rows, trainer.length, remat, packed.tokens.size)
    assert ours == trainer.flops
    assert 1.0 < counted / ours < 1.04


def test_useful_operations_are_those_that_a_hand_counts():
    shape = ModelShape(1, 2, 1, 1, 2, 3, vocab=5)  # 34 numbers in blocks, 10 in the head
    # Trajectories of 4 and 2 tokens predict 3 and 1, which see 1 + 2 + 3 and 1 positions.
    assert useful_flops(shape, [4, 2]) == 6 * 44 * 4 + 3 * (4 * 2) * 7


def test_sides_that_do_not_do_the_same_are_not_compared():
    ours = {"num_params": 10, "trained": 7, "loss": -0.5, "grad_norm": 2.0}
    learner.check_equal("p", ours, {**ours, "loss": -0.5002, "grad_norm": 2.001})
    for key, other, said in (
        ("num_params", 11, "10 parameters, tunix 11"),
        ("trained", 8, "7 trained tokens, tunix 8"),
        ("loss", -0.51, "our loss is -0.5"),
        ("grad_norm", 2.01, "our grad_norm is 2.0"),
    ):
        with pytest.raises(UnequalError, match=said):
            learner.check_equal("p", ours, {**ours, key: other})


def test_a_ratio_is_of_the_fastest_updates_and_its_range_of_the_rounds():
    ours = [{"wall": [1.0, 2.0], "cpu": [2.0, 2.0]}, {"wall": [4.0, 3.0], "cpu": [4.0, 5.0]}]
    tunix = [{"wall": [3.0, 4.0], "cpu": [6.0, 7.0]}, {"wall": [6.0, 6.0], "cpu": [8.0, 9.0]}]
    found = learner.ratios(ours, tunix)
    assert (found["ratio"], found["lowest_ratio"], found["highest_ratio"]) == (3.0, 2.0, 3.0)
    by_cpu = [found[f"cpu_{key}"] for key in ("ratio", "lowest_ratio", "highest_ratio")]
    assert by_cpu == [3.0, 2.0, 3.0] and found["cpu_ratios"] == [3.0, 2.0]


def test_rates_count_the_tokens_of_the_trajectories():
    part = PARTS["equal"]
    tokens = sum(draw_batch(part, ModelShape().vocab).lengths)
    assert tokens == 128 * part.count
    rounds = [{"wall": [4.0, 2.0], "cpu": [4.0, 5.0], "compiles": 0},
              {"wall": [8.0, 4.0], "cpu": [8.0, 8.0], "compiles": 1}]  # fmt: skip
    made = {"trained": 2048, "padding": tokens, "flops": 1e9}
    row = learner.summary("equal", made, rounds, {"wall": 1e9, "cpu": 5e8})
    assert (row["tok_s"], row["trained_tok_s"], row["row_use"]) == (tokens / 2, 1024, 0.5)
    assert (row["cpu_tok_s"], row["cpu_computed_of_peak"]) == (tokens / 4, 0.5)
    assert (row["computed_of_peak"], row["compiles"]) == (0.5, 1)
    assert row["of_peak"] == useful_flops(ModelShape(), [128] * part.count) / 2e9


@pytest.mark.usefixtures("quick_to_compile")
def test_the_parts_of_a_profile_run_and_their_operations_add_up():
    batch = draw_batch(RAGGED, TINY.vocab)
    flops = {}
    parts = learner_profile.parts(TINY, learner_ours.make_trainer(TINY, batch, 1))
    for name, call, operations in parts:
        jax.block_until_ready(call())
        flops[name] = operations
    assert flops["gradients"] == flops["update"] == pytest.approx(
        flops["blocks, gradient"] + flops["log-probs, gradient"]
    )
    assert flops["blocks, gradient"] == 3 * flops["blocks, forward"] > 0
