"""The engine's promises to one caller: the learner's own log-probs, turns, ends and refusals."""

import dataclasses

import jax
import numpy as np
import pytest

from spade_jax.sampler import ContextError, Request
from tests.sampler.engines import (
    SETTINGS,
    drain,
    forward,
    learner_logprobs,
    opened,
    request,
    run,
)


@pytest.mark.parametrize("decode_rows", [4, 6])
def test_a_request_is_bit_equal_whatever_slot_neighbours_and_load_it_meets(params, decode_rows):
    engine = opened(params, decode_rows=decode_rows)
    probe = request(1, budget=30, stop=())
    (alone,) = run(engine, [probe])
    rng = np.random.default_rng(0)
    for trial in range(8):
        others = [
            request(100 * trial + k, int(rng.integers(1, 30)), int(rng.integers(1, 15)))
            for k in range(int(rng.integers(1, 14)))
        ]
        others.append(dataclasses.replace(others[0], top_k=3))
        place = int(rng.integers(0, len(others) + 1))
        turn = run(engine, [*others[:place], probe, *others[place:]])[place]
        assert turn.tokens == alone.tokens
        assert turn.logprobs == alone.logprobs


@pytest.mark.parametrize("decode_rows", [0, 4])
def test_logprobs_are_the_learners_across_turns_and_reused_slots(params, decode_rows):
    engine = opened(params, decode_rows=decode_rows)
    requests = [request(seed, 9 + seed, 6 + seed, temperature=0.7) for seed in range(8)]
    more = [9, 8, 7, 6, 5, 11, 12]
    seen = []
    for start in (0, 4):
        handles = [engine.submit(item) for item in requests[start : start + 4]]
        first = drain(engine, handles)
        for handle in handles:
            handle.extend(more, 6)
        seen += zip(first, drain(engine, handles), strict=True)
        for handle in handles:
            handle.close()
    for item, (turn, second) in zip(requests, seen, strict=True):
        prompt = [*item.tokens, *turn.tokens, *more]
        for have, prefix in ((turn, item.tokens), (second, prompt)):
            want = learner_logprobs(params, prefix, have.tokens, 0.7)
            np.testing.assert_allclose(have.logprobs, want, atol=1e-4)


def test_greedy_equals_a_plain_full_forward_loop(engine, params):
    item = request(5, temperature=0.0, stop=())
    (turn,) = run(engine, [item])
    ids = list(item.tokens)
    for _ in range(item.max_new_tokens):
        ids.append(int(np.argmax(forward(params, ids)[-1])))
    assert list(turn.tokens) == ids[len(item.tokens) :]


def test_sampled_frequencies_follow_the_policy(engine, params):
    prompt, temperature, draws = [5, 6, 7], 0.5, 600
    turns = run(engine, [Request(prompt, 1, seed, temperature, ()) for seed in range(draws)])
    policy = np.asarray(jax.nn.softmax(forward(params, prompt)[-1] / temperature))
    counts = np.bincount([turn.tokens[0] for turn in turns], minlength=160)
    order = np.argsort(policy)
    expected, seen = policy[order] * draws, counts[order]
    bins = np.cumsum(expected) // 30  # at least about 30 expected draws a bin
    chi2 = sum(
        (seen[bins == b].sum() - expected[bins == b].sum()) ** 2 / expected[bins == b].sum()
        for b in np.unique(bins)
    )
    degrees = len(np.unique(bins)) - 1
    assert chi2 < degrees + 4 * np.sqrt(2 * degrees)


def test_members_of_a_group_differ_by_their_seed(engine):
    tokens = request(0).tokens
    turns = run(engine, [Request(tokens, 8, seed, 1.0, ()) for seed in range(6)])
    assert len({turn.tokens for turn in turns}) == 6


def test_a_turn_says_whether_it_stopped_or_was_cut(engine):
    every = tuple(range(100, 104))
    cut = run(engine, [request(2, budget=3, stop=())])[0]
    assert not cut.stopped and len(cut.tokens) == 3
    stopped = [t for t in run(engine, [request(s, stop=every) for s in range(40)]) if t.stopped]
    assert stopped and all(turn.tokens[-1] in every for turn in stopped)
    assert all(not set(turn.tokens[:-1]) & set(every) for turn in stopped)


def test_the_context_ends_a_turn_and_refuses_what_cannot_fit(engine):
    (turn,) = run(engine, [request(3, length=40, budget=30, stop=())])
    assert len(turn.tokens) == SETTINGS.max_len - 40 and not turn.stopped
    with pytest.raises(ContextError, match="context of 48"):
        engine.submit(request(3, length=48))
    handle = engine.submit(request(3, length=30, budget=2, stop=()))
    drain(engine, [handle])
    with pytest.raises(ContextError):
        handle.extend(list(range(4, 20)), 2)
    handle.close()


def test_no_shape_is_new_after_warm_up(engine):
    engine.warm_up()
    before = engine.compiles()
    requests = [request(s, 1 + s % 20, 1 + s % 9, stop=(s, s + 1)) for s in range(30)]
    narrow = [dataclasses.replace(item, top_k=5, top_p=0.8) for item in requests]
    run(engine, [*requests, *requests, *narrow])
    assert engine.compiles() == before


def test_a_common_prefix_is_read_once_and_changes_nothing(engine):
    tokens = request(0, length=23).tokens
    group = [Request(tokens, 9, seed, 1.0, ()) for seed in range(4)]
    longer = [Request([*tokens[:17], *more], 9, 50, 1.0, ()) for more in ([9], [8, 7, 6, 5, 4, 3])]
    alone = [run(engine, [item])[0] for item in (*group, *longer)]
    engine._memory.forget()
    engine.load(engine._loaded, 7)  # counts anew
    together = run(engine, [*group, *longer])
    for one, other in zip(alone, together, strict=True):
        assert (one.tokens, one.logprobs) == (other.tokens, other.logprobs)
    assert engine.stats.shared_tokens == 3 * 22 + 2 * 15
    assert engine.stats.prefilled_tokens == 22 + (17 - 15) + (22 - 15)


def test_a_prefix_whose_owner_is_gone_is_read_anew(engine):
    tokens = request(0, length=23).tokens
    first, second = (Request(tokens, 4, seed, 1.0, ()) for seed in (1, 2))
    (alone,) = run(engine, [second])
    engine._memory.forget()
    owner, follower = engine.submit(first), engine.submit(second)
    third = engine.submit(second)
    engine._admit()
    owner.close()
    before = engine.stats.shared_tokens
    for turn in drain(engine, [follower, third]):
        turn.handle.close()
        assert (turn.tokens, turn.logprobs) == (alone.tokens, alone.logprobs)
    assert engine.stats.shared_tokens - before == 22  # the third's, of the follower


def test_waiting_for_slots_that_nobody_frees_is_an_error_not_a_hang(engine):
    handles = [engine.submit(request(seed)) for seed in range(SETTINGS.num_slots + 1)]
    drain(engine, handles[:-1])
    with pytest.raises(RuntimeError, match="extend or close"):
        engine.advance()
    for handle in handles:
        handle.close()


def test_parameters_change_only_between_episodes_and_stamp_every_turn(engine, params):
    handle = engine.submit(request(0))
    with pytest.raises(RuntimeError, match="open"):
        engine.load(params, 8)
    (turn,) = drain(engine, [handle])
    handle.close()
    assert turn.version == 7
    engine.load(params, 8)
    assert run(engine, [request(0)])[0].version == 8
    engine.load(params, 7)


def test_an_engine_at_rest_holds_nothing_and_samples_the_same_again(engine, params):
    (before,) = run(engine, [request(0)])
    engine.unload()
    assert engine._memory._cache is None and engine._params is None
    with pytest.raises(RuntimeError, match="load parameters first"):
        engine.submit(request(0))
    engine.load(params, 7)
    (after,) = run(engine, [request(0)])
    assert (after.tokens, after.logprobs) == (before.tokens, before.logprobs)


def test_narrow_requests_sample_from_their_own_policy_beside_wide_ones(engine, params):
    wide = [request(seed, stop=()) for seed in range(6)]
    narrow = [dataclasses.replace(item, top_k=1, seed=99) for item in wide]
    greedy = [dataclasses.replace(item, temperature=0.0) for item in wide]
    turns = run(engine, [*wide, *narrow, *greedy])
    for one, other in zip(turns[6:12], turns[12:], strict=True):
        assert one.tokens == other.tokens
        assert one.logprobs == (0.0,) * len(one.tokens)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_k": -1}, "top_k=-1"),
        ({"temperature": -1.0}, "temperature=-1.0"),
        ({"tokens": []}, "at least one prompt token"),
        ({"stop_ids": tuple(range(129))}, "129 stop ids"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_an_impossible_request_is_refused_by_name(setting, named):
    with pytest.raises(ValueError, match=named):
        dataclasses.replace(request(0), **setting)


@pytest.mark.parametrize(
    "setting", [{"prefill_chunks": (5, 3)}, {"prefill_chunks": ()}, {"decode_chunk": 0}]
)
def test_impossible_settings_are_refused_by_name(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        dataclasses.replace(SETTINGS, **setting)


def test_a_handle_is_extended_between_its_turns_only(engine):
    handle = engine.submit(request(0, budget=20, stop=()))
    for moment in ("queued", "running"):
        with pytest.raises(RuntimeError, match="whose turn is over"):
            handle.extend([5], 3)
        assert engine.advance() == [], moment
    drain(engine, [handle])
    with pytest.raises(ValueError, match="max_new_tokens=0"):
        handle.extend([5], 0)
    handle.close()
    handle.close()  # harmless
    with pytest.raises(RuntimeError, match="whose turn is over"):
        handle.extend([5], 3)


def test_a_rewritten_history_is_read_from_its_first_changed_token(engine, params):
    item = request(1, length=20, budget=6, stop=())
    handle = engine.submit(item)
    (first,) = drain(engine, [handle])
    before = engine.stats.prefilled_tokens
    kept = len(item.tokens) + 2  # four sampled tokens are forgotten
    handle.extend([11, 12, 13], 5, kept=kept)
    (second,) = drain(engine, [handle])
    assert engine.stats.prefilled_tokens - before == 2  # the third is for the decode program
    prompt = [*item.tokens, *first.tokens[:2], 11, 12, 13]
    want = learner_logprobs(params, prompt, second.tokens)
    np.testing.assert_allclose(second.logprobs, want, atol=1e-4)
    handle.extend([14], 3, kept=4)  # deep inside what others may share
    (third,) = drain(engine, [handle])
    want = learner_logprobs(params, [*item.tokens[:4], 14], third.tokens)
    np.testing.assert_allclose(third.logprobs, want, atol=1e-4)
    for kept, tokens in ((99, [5]), (-1, [5]), (4, []), (3, [])):
        with pytest.raises(ValueError, match="kept="):
            handle.extend(tokens, 3, kept=kept)
    handle.close()
    (anew,) = run(engine, [item])
    assert (anew.tokens, anew.logprobs) == (first.tokens, first.logprobs)


def test_a_stop_string_ends_a_turn_where_it_is_complete(engine):
    spell = "abcdefghij"

    def decode(tokens):
        return "".join(spell[token % 10] for token in tokens)

    (whole,) = run(engine, [request(4, budget=30, stop=())])
    text = decode(whole.tokens)
    wanted = text[7:10]
    count = text.index(wanted) + 3
    item = request(4, budget=30, stop=())
    item = dataclasses.replace(item, stop_strings=("?", wanted), decode=decode)
    handle = engine.submit(item)
    (turn,) = drain(engine, [handle])
    assert turn.stopped and turn.tokens == whole.tokens[:count]
    assert turn.logprobs == whole.logprobs[:count]
    handle.extend([5, 6], 4)
    (after,) = drain(engine, [handle])
    assert handle.row.length == 9 + count + 2 + len(after.tokens) - 1
    handle.close()


def test_a_turn_ends_at_its_deadline_and_the_episode_can_go_on(engine, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    timed = [dataclasses.replace(request(s, budget=30, stop=()), timeout=9.0) for s in range(7)]
    handles = [engine.submit(item) for item in timed]
    while not any(handle.tokens for handle in handles):
        assert engine.advance() == []
    now[0] = 11.0
    turns = drain(engine, handles)
    assert {turn.end for turn in turns} == {"deadline"}
    assert turns[6].tokens == () and handles[6].row is None, "it never had a slot"
    assert any(turn.tokens for turn in turns)
    handles[0].extend([5], 3)
    (turn,) = drain(engine, handles[:1])
    assert turn.end == "length"
    for handle in handles:
        handle.close()
    assert engine._memory.open_rows == 0 and engine.advance() == []


def test_nothing_is_waited_for_at_timeout_zero(engine):
    handle = engine.submit(request(0, budget=20, stop=()))
    calls, turns = 0, []
    while not turns:
        turns, calls = engine.advance(timeout=0), calls + 1
        assert engine.running or turns
    assert turns[0].handle is handle and not engine.running
    handle.close()
    assert engine.advance(timeout=0) == []
