"""Load, pressure and failures change no bit, on one device and on meshes."""

import dataclasses

import jax
import numpy as np
import pytest

from spade_jax import models, parallel
from spade_jax.sampler import ContextError, Engine, Request
from spade_jax.sampler.planner import Kind
from tests.sampler.engines import (
    CONFIG,
    MOE,
    SETTINGS,
    drain,
    gib,
    learner_logprobs,
    opened,
    request,
    run,
)


class Script:
    """Plays handles through a random number of turns and remembers what they saw."""

    def __init__(self, engine, rng, item):
        self.rng, self.item, self.turns, self.more = rng, item, [], []
        self.handle = engine.submit(item)

    def take(self, turn):
        self.turns.append((turn.tokens, turn.logprobs))
        new = self.rng.integers(4, 160, int(self.rng.integers(1, 9))).tolist()
        known = self.handle.row.length + len(self.handle.pending)
        kept = int(self.rng.integers(1, known)) if self.rng.random() < 0.3 else None
        try:
            if len(self.turns) < 3 and self.rng.random() < 0.7:
                self.handle.extend(new, 5, kept)
                self.more.append((new, kept))
                return True
        except ContextError:
            pass
        self.handle.close()
        return False


@pytest.mark.parametrize("seed", range(6))
def test_random_arrivals_turns_rewrites_and_cancels_change_no_bit(engine, small, seed):
    """Half of them with so few pages that rows are parked."""
    rng = np.random.default_rng(seed)
    busy = engine if seed % 2 else small
    busy._memory.forget()
    scripts, live = [], {}
    for _ in range(60):
        if len(scripts) < 14 and rng.random() < 0.6:
            item = request(int(rng.integers(5)), int(rng.integers(1, 30)), int(rng.integers(1, 14)))
            item = dataclasses.replace(item, seed=int(rng.integers(1000)))
            scripts.append(Script(busy, rng, item))
            live[scripts[-1].handle] = scripts[-1]
        if live and rng.random() < 0.05:
            gone = list(live)[int(rng.integers(len(live)))]
            scripts.remove(live.pop(gone))
            gone.close()
        for turn in busy.advance(timeout=0 if rng.random() < 0.5 else None):
            if not live[turn.handle].take(turn):
                del live[turn.handle]
    while live:
        for turn in busy.advance():
            if not live[turn.handle].take(turn):
                del live[turn.handle]
    assert busy._memory.open_rows == 0
    assert sum(len(script.turns) for script in scripts) > len(scripts)
    for script in scripts:
        handle = engine.submit(script.item)
        for number, (tokens, logprobs) in enumerate(script.turns):
            (turn,) = drain(engine, [handle])
            assert (turn.tokens, turn.logprobs) == (tokens, logprobs)
            if number < len(script.more):
                new, kept = script.more[number]
                handle.extend(new, 5, kept)
        handle.close()


@pytest.mark.parametrize("experts", ["ragged", "dense"])
def test_experts_change_no_bit_either_and_give_the_learners_logprobs(experts):
    config = dataclasses.replace(MOE, experts=experts)
    params = parallel.unbox(models.init(config, jax.random.key(1)))
    engine = Engine(config, parallel.make_mesh({}, jax.devices()[:1]), SETTINGS)
    engine.load(params, 0)
    requests = [request(seed, 3 + seed, 5 + seed) for seed in range(10)]
    alone = [run(engine, [item])[0] for item in requests]
    engine._memory.forget()
    for item, one, other in zip(requests, alone, run(engine, requests), strict=True):
        assert (one.tokens, one.logprobs) == (other.tokens, other.logprobs)
        want = learner_logprobs(params, item.tokens, one.tokens, config=config)
        np.testing.assert_allclose(one.logprobs, want, atol=1e-4)


@pytest.mark.parametrize(
    ("config", "sizes"),
    [(CONFIG, {"data": 2, "tensor": 2}), (MOE, {"fsdp": 2, "tensor": 2, "expert": 2})],
)
def test_a_mesh_samples_the_learners_policy(config, sizes):
    mesh = parallel.make_mesh(sizes, jax.devices()[: int(np.prod(list(sizes.values())))])
    boxed, shards = models.init(config, jax.random.key(2)), parallel.row_shards(mesh)
    params = parallel.unbox(boxed)
    settings = dataclasses.replace(SETTINGS, num_slots=8, cache_gib=gib(config, 8 * shards))
    engine = Engine(config, mesh, settings)
    engine.load(jax.device_put(params, parallel.tree_shardings(mesh, boxed)), 0)
    requests = [request(seed, 20 + seed, 8 + seed, stop=()) for seed in range(9)]
    engine.warm_up()
    before = engine.compiles()
    handles = [engine.submit(item) for item in requests[:8]]
    turns = drain(engine, handles)
    assert {handle.row.shard for handle in handles} == set(range(shards))
    for handle in handles:
        handle.close()
    turns += run(engine, requests[8:])
    assert engine.compiles() == before
    assert engine.stats.parked_pages > 0
    for item, turn in zip(requests, turns, strict=True):
        want = learner_logprobs(params, item.tokens, turn.tokens, config=config)
        np.testing.assert_allclose(turn.logprobs, want, atol=1e-4)


def test_a_small_budget_parks_rows_and_changes_no_bit(engine, small):
    requests = [request(seed, 10 + seed, 20, stop=()) for seed in range(6)]
    seen = []
    for which in (engine, small):
        which._memory.forget()
        handles = [which.submit(item) for item in requests]
        first = drain(which, handles)  # all are held until the last one ends
        for handle in handles:
            handle.extend([7, 8, 9], 4)
        second = drain(which, handles)
        for handle in handles:
            handle.close()
        seen.append([(turn.tokens, turn.logprobs) for turn in (*first, *second)])
    assert seen[0] == seen[1]
    assert small.stats.parked_pages > 0
    run(small, requests)
    assert small._memory.open_rows == 0


def test_a_budget_below_one_context_is_refused_by_name(params):
    with pytest.raises(ValueError, match="cache_gib=1e-06: expected at least 0.000"):
        opened(params, cache_gib=1e-6)


def test_rows_that_are_long_go_fewer_together(params, engine):
    few = opened(params, past_tokens=64)
    requests = [request(seed, 25, 20, stop=()) for seed in range(5)]
    for one, other in zip(run(few, requests), run(engine, requests), strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)
    kinds = Kind(None, 8), Kind(None, 32), Kind(3, 48)
    assert [few._planner.rows(kind) for kind in kinds] == [4, 2, 1]


def test_a_closed_handle_leaves_nothing_behind_while_its_job_runs(engine):
    handles = [engine.submit(request(seed, budget=30, stop=())) for seed in range(4)]
    engine.advance(timeout=0)
    assert any(handle.row.busy for handle in handles)
    for handle in handles:
        handle.close()
    (turn,) = run(engine, [request(9)])
    engine.load(engine._loaded, 7)
    (again,) = run(engine, [request(9)])
    assert (turn.tokens, turn.logprobs) == (again.tokens, again.logprobs)


def test_one_context_of_pages_is_enough_for_any_load(engine, params):
    least = opened(params, cache_gib=gib(CONFIG, 7), num_slots=12)
    tokens = request(0, length=30).tokens
    nested = [tokens[:12], tokens[:23], tokens, [*tokens[:20], 5, 6, 7]]
    requests = [Request(nested[k % 4], 9, k, 1.0, ()) for k in range(12)]
    alone = run(engine, requests)
    for cancelled in (0, 3):
        least._memory.forget()
        handles = [least.submit(item) for item in requests]
        for _ in range(cancelled):
            least.advance(timeout=0)
        for handle in handles[:cancelled]:
            handle.close()
        for turn, one in zip(drain(least, handles[cancelled:]), alone[cancelled:], strict=True):
            assert (turn.tokens, turn.logprobs) == (one.tokens, one.logprobs)
        for handle in handles:
            handle.close()
        assert least._memory.open_rows == 0
    whole = request(1, length=41, budget=40, stop=())  # it fills all pages, its prompt's last too
    (turn,), (want,) = run(least, [whole]), run(engine, [whole])
    assert (turn.end, turn.tokens, turn.logprobs) == ("context", want.tokens, want.logprobs)


@pytest.mark.parametrize("streams", [1, 3])
def test_the_number_of_streams_changes_no_bit(engine, params, streams):
    other = opened(params, streams=streams)
    requests = [request(seed, 3 + seed, 5 + seed) for seed in range(12)]
    for one, two in zip(run(engine, requests), run(other, requests), strict=True):
        assert (one.tokens, one.logprobs) == (two.tokens, two.logprobs)


def test_a_job_that_fails_is_raised_once_and_the_engine_can_be_used_again(params, monkeypatch):
    engine = opened(params)
    (want,) = run(engine, [request(3)])
    decode = engine._programs.decode
    handles = [engine.submit(request(seed)) for seed in range(3)]

    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(engine._programs, "decode", fail)
    with pytest.raises(MemoryError, match="no room"):
        drain(engine, handles)
    for handle in handles:
        handle.close()
    monkeypatch.setattr(engine._programs, "decode", decode)
    engine.load(params, 8)
    (turn,) = run(engine, [request(3)])
    assert (turn.tokens, turn.logprobs, turn.version) == (want.tokens, want.logprobs, 8)
