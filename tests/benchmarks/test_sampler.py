"""The logic of `benchmarks.sampler`: what it accepts as equal work, its ratios, bounds, adapter."""

import sys

import numpy as np
import pytest

from benchmarks import sampler, sampler_engine, sampler_roofline
from benchmarks.sampler_roofline import Peaks
from benchmarks.sampler_workload import (
    PARTS,
    ModelShape,
    Part,
    Reply,
    ReplyError,
    check_replies,
    draw_prompts,
    play,
)
from benchmarks.worker import Worker, WorkerError

TINY = ModelShape(2, 32, 2, 1, 8, 48, vocab=512)


def geometric(seed, chance, count=192, most=128):
    return np.minimum(np.random.default_rng(seed).geometric(chance, count), most).tolist()


def a_round(lengths, wall=1.0, cpu=1.0, num_params=10, steps=100):
    calls = [[Reply(0, 5, length) for length in lengths]]
    return sampler.Round(calls, wall, cpu, steps, 0, num_params)


def test_lengths_of_one_distribution_pass_and_those_of_another_sampler_do_not():
    chances = [
        sampler.same_lengths(geometric(2 * seed, 85 / 4096), geometric(2 * seed + 1, 85 / 4096))
        for seed in range(20)
    ]
    assert min(chances) > sampler.SAME and np.median(chances) > 0.2
    never_stops = [128] * 192
    for wrong in (geometric(1, 170 / 4096), geometric(1, 40 / 4096), never_stops):
        assert sampler.same_lengths(geometric(0, 85 / 4096), wrong) < sampler.SAME


def test_engines_of_unequal_size_or_lengths_are_not_compared():
    right = a_round(geometric(0, 0.02))
    sampler.check_equal("varied", [right], [a_round(geometric(1, 0.02))])
    with pytest.raises(sampler.UnequalError, match="10 parameters, tunix's 11"):
        sampler.check_equal("varied", [right], [a_round(geometric(1, 0.02), num_params=11)])
    with pytest.raises(sampler.UnequalError, match="two distributions"):
        sampler.check_equal("varied", [right], [a_round([128] * 192)])


def test_ratios_pair_the_rounds_and_count_useful_tokens_per_second():
    ours = [a_round([10, 20], wall=1.0), a_round([40], wall=2.0), a_round([30], wall=1.0)]
    tunix = [a_round([30], wall=2.0), a_round([10], wall=2.0), a_round([10, 10], wall=2.0)]
    assert sampler.ratios(ours, tunix, "rate") == pytest.approx([2.0, 4.0, 3.0])
    part = Part("p", slots=2)
    row = sampler.summary(part, ours, tunix, Peaks(1e9, 1e9, {2: 0.01, 1024: 0.1}))
    assert (row["ratio"], row["lowest_ratio"], row["highest_ratio"]) == (3.0, 2.0, 4.0)
    assert row["tok_s"] == 30.0 and row["tunix_tok_s"] == 10.0
    assert row["slot_use"] == pytest.approx(100 / 300)


@pytest.mark.parametrize(
    "replies",
    [[[5, 6]], [[5, 9, 9]], [[]], [[5, 6, 7, 8, 5]], [[5, 9], [9]]],
    ids=["cut early", "goes on", "empty", "too long", "one too many"],
)
def test_a_reply_must_end_at_its_first_stop_id_or_at_its_limit(replies):
    check_replies([[5, 9], [5, 6, 7, 9], [5, 6, 7, 8]], 3, 4, [9])
    with pytest.raises(ReplyError):
        check_replies(replies, 1, 4, [9])


def test_the_bounds_count_what_a_hand_counts():
    shape = ModelShape(1, 2, 1, 1, 2, 3, vocab=5)  # 34 numbers in blocks, 10 in the head
    assert (sampler_roofline.block_params(shape), sampler_roofline.head_params(shape)) == (34, 10)
    calls = [[Reply(known=1, prompt=4, sampled=2), Reply(known=3, prompt=4, sampled=3)]]
    # Prefill: positions 1 and 2 see 2 + 3 tokens. Decode: 3, 4 see 4 + 5; 3, 4, 5 see 4 + 5 + 6.
    flops = [2 * 34 * 2 + 8 * 5, 2 * 44 * 5 + 8 * 24]
    moved = [4 * (34 + 4 * 2), 4 * (44 * 3 + 4 * 24)]
    by_flops = sampler_roofline.roof(shape, calls, 2, Peaks(10.0, 1e9, {}))
    by_bytes = sampler_roofline.roof(shape, calls, 2, Peaks(1e9, 10.0, {}))
    assert by_flops == pytest.approx(sum(flops) / 10)
    assert by_bytes == pytest.approx(sum(moved) / 10)
    peaks = Peaks(1.0, 1.0, {1: 2.0, 2: 3.0, sampler_roofline.PREFILL_ROWS: 512.0})
    assert sampler_roofline.floor(calls, 2, peaks) == pytest.approx(2 * 0.5 + 5 * 1.5)
    assert sampler_roofline.floor(calls, 1, peaks) == pytest.approx(2 * 0.5 + 5 * 2.0)


def test_parts_are_what_they_say():
    group = draw_prompts(PARTS["group"], 4096, 1)
    assert len(group) == 64 and len({tuple(prompt) for prompt in group}) == 8
    assert group[0] == group[7] != group[8]
    assert not set(map(tuple, group)) & set(map(tuple, draw_prompts(PARTS["group"], 4096, 2)))
    assert all(48 <= len(prompt) <= 80 for prompt in draw_prompts(PARTS["refill"], 4096, 1))

    sessions = []

    def always_full(prompts, max_new, stop_ids, seed, session):
        sessions.append(session)
        return [[1] * max_new for _ in prompts]

    turns = play(PARTS["turns"], 4096, 0, always_full)
    assert sessions == 4 * [list(range(64))]
    first = [call[0] for call in turns]
    assert [reply.prompt - first[0].prompt for reply in first] == [0, 80, 160, 240]
    assert [r.known for r in first] == [0, *(r.prompt - 33 for r in first[1:])]
    assert len(play(PARTS["batch1"], 4096, 0, always_full)) == 8


@pytest.fixture(scope="module")
def engine():
    return sampler_engine.make_engine(TINY, 96, 4)


def conversation(engine, session, turns=3):
    """The replies of a few turns; the same seed throughout, for a session keeps its first."""
    rng = np.random.default_rng(0)
    histories = [rng.integers(100, 300, size).tolist() for size in (5, 9, 7, 6)]
    said = []
    for _ in range(turns):
        replies = engine.generate(histories, 10, list(range(480, 512)), 3, session)
        said.append(replies)
        observed = rng.integers(100, 300, (4, 6)).tolist()
        histories = [h + r + o for h, r, o in zip(histories, replies, observed, strict=True)]
    return said


def test_the_adapter_replies_the_same_with_sessions_and_reads_less(engine):
    prefilled = [engine.engine.stats.prefilled_tokens]
    without = conversation(engine, None)
    prefilled.append(engine.engine.stats.prefilled_tokens)
    with_sessions = conversation(engine, [7, 8, 9, 10])
    prefilled.append(engine.engine.stats.prefilled_tokens)
    assert with_sessions == without
    lengths = [[len(reply) for reply in turn] for turn in without]
    assert len({length for turn in lengths for length in turn}) > 1
    whole, new = np.diff(prefilled)
    assert new == 27 - 4 + 2 * 4 * 6  # prompts but their last tokens, then the observations
    assert whole > 2 * new


def test_a_history_that_does_not_continue_its_session_starts_anew(engine):
    once = conversation(engine, [0, 1, 2, 3])
    assert conversation(engine, [0, 1, 2, 3]) == once
    assert conversation(engine, None, turns=1) == once[:1]  # the four held every slot
    with pytest.raises(ValueError, match="5 episodes, 4 slots"):
        engine.generate([[101]] * 5, 4, [2], 0, session=list(range(5)))


def test_the_adapter_keeps_every_rule_with_more_requests_than_slots(engine):
    part = Part("p", slots=4, max_len=96, prompts=9, max_new=12, num_stop=60)
    steps = engine.slot_steps
    (replies,) = play(part, TINY.vocab, 0, engine.generate)
    assert len(replies) == 9
    assert sum(reply.sampled for reply in replies) <= engine.slot_steps - steps


def test_the_adapter_has_the_shape_asked_for(engine):
    norms = 2 * (2 * 32 + 2 * 8) + 32
    blocks, head = sampler_roofline.block_params(TINY), sampler_roofline.head_params(TINY)
    assert engine.num_params == blocks + 2 * head + norms


def test_an_engine_that_dies_says_why():
    with (
        Worker([sys.executable, "-c", "raise SystemExit('no such engine')"]) as worker,
        pytest.raises(WorkerError, match="code 1:\nno such engine"),
    ):
        worker.ask("about")
