"""The update: equalities that must hold whatever the sharding, packing and micro-batching."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax import models, parallel
from spade_jax.rl import Learner, LossSettings, OptimizerSettings, pack, token_weights
from spade_jax.rl.logprobs import token_logprobs
from spade_jax.rollout import Trajectory
from tests.rl.small import DENSE, MOE, SHARDED, rows


def learner(config, mesh=None, **settings):
    mesh = parallel.make_mesh(mesh or {}, jax.devices() if mesh else jax.devices()[:1])
    settings = LossSettings(**{"kl": 0.1, "entropy": 0.01, **settings})
    return Learner(config, mesh, "policy", settings, OptimizerSettings(1e-2), chunk=32)


def total_gradient(
    engine, params, trajectories, advantages, height, length, reference, episodes=None
):
    weights, total, loss = token_weights(trajectories, "trajectory", episodes), None, 0.0
    for batch in pack(trajectories, advantages, weights, height, length):
        gradient, sums = engine.gradients(params, batch, 0.8, reference)
        total, loss = engine.add(total, gradient), loss + float(sums["loss"])
    return jax.device_get(total), loss


def assert_close(a, b, atol=2e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=atol), a, b)


def split(row):
    """The same episode as two rows, the second beginning after the first reply."""
    at = row.mask.index(0, row.mask.index(1)) if 0 in row.mask[row.mask.index(1) :] else None
    if at is None:
        return [row]
    first, second = (Trajectory(), row.branch(at))
    first.append_context(row.tokens[:at])
    first.mask, first.logprobs = row.mask[:at], row.logprobs[:at]
    second.tokens, second.mask = list(row.tokens), second.mask + row.mask[at:]
    second.logprobs += row.logprobs[at:]
    return [first, second]


def test_an_update_consumes_the_state_but_not_the_reference():
    engine = learner(DENSE)
    state = engine.init(jax.random.key(0))
    reference = engine.reference(state.params)
    gradients = jax.tree.map(jnp.ones_like, state.params)
    updated, _ = engine.apply(state, gradients)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.params))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves((reference, updated)))


def test_an_episode_in_several_rows_gives_the_gradient_of_one():
    engine = learner(DENSE)
    params, reference = (engine.init(jax.random.key(k)).params for k in (0, 1))
    trajectories, advantages = rows()
    parts = [(part, n) for n, row in enumerate(trajectories) for part in split(row)]
    assert len(parts) > len(trajectories)
    one = total_gradient(engine, params, trajectories, advantages, 4, 64, reference)
    several = total_gradient(
        engine, params, [part for part, _ in parts], [advantages[n] for _, n in parts], 4, 64,
        reference, [n for _, n in parts],
    )  # fmt: skip
    assert_close(one, several)


@pytest.fixture(scope="module", params=[DENSE, MOE], ids=["dense", "moe"])
def whole(request):
    """The gradient in one batch on one device, and what made it."""
    engine = learner(request.param)
    params = engine.init(jax.random.key(0)).params
    reference = engine.init(jax.random.key(1)).params
    trajectories, advantages = rows()
    gradient = total_gradient(engine, params, trajectories, advantages, 4, 64, reference)
    return request.param, engine, params, reference, trajectories, advantages, gradient


def test_micro_batched_equals_whole(whole):
    _, engine, params, reference, trajectories, advantages, want = whole
    got = total_gradient(engine, params, trajectories, advantages, 1, 64, reference)
    assert_close(got, want)


def test_packed_equals_unpacked(whole):
    _, engine, params, reference, trajectories, advantages, want = whole
    longest = max(len(row.tokens) for row in trajectories)
    assert longest < 28
    got = total_gradient(engine, params, trajectories, advantages, 16, longest, reference)
    assert_close(got, want)


@pytest.mark.parametrize("mesh", [SHARDED, {"data": 1, "fsdp": 2, "tensor": 1, "expert": 4}])
def test_sharded_equals_unsharded(whole, mesh):
    config, _, params, reference, trajectories, advantages, want = whole
    engine = learner(config, mesh)
    put = lambda tree: jax.device_put(tree, engine.shardings.params)  # noqa: E731
    got = total_gradient(engine, put(params), trajectories, advantages, 8, 64, put(reference))
    assert_close(got, want)


def test_parameters_are_created_sharded():
    engine = learner(DENSE, SHARDED)
    kernel = engine.init(jax.random.key(0)).params["blocks"]["mlp"]["up"]["kernel"]
    assert kernel.sharding.shard_shape(kernel.shape) == (2, 16, 32)


def test_a_fresh_state_lies_where_updated_ones_do():
    engine = learner(DENSE, SHARDED)
    params = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), engine.abstract().params)
    state = engine.adopt(params)
    assert jax.tree.map(lambda leaf: leaf.sharding, state) == engine.shardings


@pytest.mark.parametrize("mesh", [None, SHARDED])
@pytest.mark.parametrize("tied", [True, False])
def test_token_logprobs_in_chunks_equal_the_full_softmax(mesh, tied):
    config = dataclasses.replace(DENSE, tied=tied)
    engine = learner(config, mesh)
    params = engine.init(jax.random.key(0)).params
    hidden = jax.random.normal(jax.random.key(1), (4, 12, 32))
    targets = jax.random.randint(jax.random.key(2), (4, 12), 0, 96)

    def whole(params, hidden):
        logp = jax.nn.log_softmax(models.logits(config, params, hidden) / 0.7)
        chosen = jnp.take_along_axis(logp, targets[..., None], -1)[..., 0]
        return jnp.stack([chosen, -(jnp.exp(logp) * logp).sum(-1)])

    def chunked(chunk, params, hidden):
        mine = token_logprobs(config, params, hidden, targets, 0.7, chunk, engine.mesh)
        return jnp.stack(mine)

    def run(function):
        def loss(params, hidden):
            out = function(params, hidden)
            return jnp.sin(out).sum(), out

        return jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(params, hidden)

    want = run(whole)
    for chunk in (1, 5, 64):
        assert_close(run(functools.partial(chunked, chunk)), want)


def test_router_statistics_are_means_over_micro_batches_and_absent_without_experts():
    trajectories, advantages = rows()
    weights = token_weights(trajectories, "trajectory")
    found = []
    for config in (MOE, DENSE):
        engine, sums = learner(config, kl=0.0), []
        params = engine.init(jax.random.key(0)).params
        for batch in pack(trajectories, advantages, weights, 1, 64):
            sums.append(engine.gradients(params, batch, 1.0)[1])
        assert len(sums) > 1
        found.append({name: sum(part[name] for part in sums) for name in sums[0]})
    assert 1 <= found[0]["router_load_max"] <= 2
    assert 0 <= found[0]["router_unused"] < 1
    assert 0 < found[0]["router_entropy"] <= np.log(4)
    assert not [name for name in found[1] if name.startswith("router")]


def test_the_reference_is_kept_in_the_dtype_of_computing_and_changes_no_logprob():
    config = dataclasses.replace(DENSE, dtype="bfloat16")
    engine = learner(config, SHARDED)
    params = engine.init(jax.random.key(0)).params
    reference = engine.reference(params)
    jax.tree.map(
        lambda leaf, wanted: np.testing.assert_equal(
            (leaf.shape, leaf.dtype, leaf.sharding), (wanted.shape, wanted.dtype, wanted.sharding)
        ),
        reference, engine.abstract_reference(),
    )  # fmt: skip
    assert reference["embedding"].dtype == jnp.bfloat16
    assert reference["final_norm"]["scale"].dtype == jnp.float32
    (batch,) = pack(*rows(4), [0.01] * 4, 4, 64)
    got, want = (engine.gradients(params, batch, 0.8, which)[1] for which in (reference, params))
    assert float(want["kl"]) < 1e-4
    jax.tree.map(np.testing.assert_array_equal, got, want)
    same = learner(DENSE)
    params = same.init(jax.random.key(0)).params
    assert_close(same.reference(params), params, atol=0)


@pytest.mark.parametrize("remat", ["full", "dots"])
def test_what_is_recomputed_changes_no_gradient(whole, remat):
    config, _, params, reference, trajectories, advantages, want = whole
    engine = learner(dataclasses.replace(config, remat=remat))
    got = total_gradient(engine, params, trajectories, advantages, 4, 64, reference)
    assert_close(got, want)


def test_zero_advantages_leave_the_parameters_alone():
    engine = learner(DENSE, kl=0.0, entropy=0.0)
    state = engine.init(jax.random.key(0))
    trajectories, _ = rows()
    weights = token_weights(trajectories, "trajectory")
    (batch,) = pack(trajectories, np.zeros(len(trajectories)), weights, 8, 64)
    gradient, _ = engine.gradients(state.params, batch, 1.0)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(gradient))
    optimizer = OptimizerSettings(1e-2, weight_decay=0.0)
    still = Learner(DENSE, engine.mesh, "policy", LossSettings(), optimizer)
    before = jax.device_get(state.params)
    after, _ = still.apply(still.adopt(state.params), gradient)
    jax.tree.map(np.testing.assert_array_equal, after.params, before)


def test_an_update_raises_what_was_good_and_lowers_what_was_bad():
    engine = learner(DENSE, kl=0.0, entropy=0.0)
    state = engine.init(jax.random.key(0))
    trajectories, _ = rows(2)
    weights = token_weights(trajectories, "trajectory")
    (batch,) = pack(trajectories, [1.0, -1.0], weights, 2, 64)
    before = jax.tree.map(jnp.copy, state.params)
    for _ in range(3):
        gradient, _ = engine.gradients(state.params, batch, 1.0)
        state, _ = engine.apply(state, gradient)

    def logprob(params, row):
        ids = jnp.asarray([row.tokens])
        hidden = models.hidden_packed(
            DENSE, params, ids, jnp.arange(ids.shape[1])[None], jnp.ones_like(ids)
        )
        logp = jax.nn.log_softmax(models.logits(DENSE, params, hidden))[0, :-1]
        chosen = jnp.take_along_axis(logp, ids[0, 1:, None], -1)[:, 0]
        return float((chosen * jnp.asarray(row.mask[1:])).sum())

    good, bad = (logprob(state.params, row) - logprob(before, row) for row in trajectories)
    assert good > 0 > bad


def test_a_kl_term_without_a_reference_is_refused():
    engine = learner(DENSE)
    params = engine.init(jax.random.key(0)).params
    trajectories, advantages = rows(1)
    (batch,) = pack(trajectories, advantages, [1.0], 1, 64)
    with pytest.raises(ValueError, match="reference"):
        engine.gradients(params, batch, 1.0)
