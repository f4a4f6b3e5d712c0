"""The step's numbers, by hand."""

import math
from types import SimpleNamespace

import pytest

from spade_jax import statistics
from spade_jax.designer import Environment, Memory, MemorySettings, Record
from spade_jax.parallel import Hosts
from spade_jax.rl import SkillAverages
from spade_jax.rollout import Episode, PlaySettings, Task, Trajectory
from spade_jax.sampler import Stats
from spade_jax.text import Message


def environment(name, hint=(), plain=(), skill="s", **more):
    return Environment(
        name, skill, None, "r", 0, Trajectory(), source=name, hint_returns=list(hint),
        windows=[list(plain)], **more,
    )  # fmt: skip


def episode(reward, outcome="terminated"):
    made = Episode(Task(None, 0, 0, PlaySettings(1.0, 5, 8)))
    made.outcome, made.reward = outcome, reward
    return made


def test_bands_and_regret():
    played = [
        environment("easy", [1, 1], [1, 1]),
        environment("edge", [1, 1], [1, 0]),
        environment("hard", [0, 0], [0, 0]),
        environment("worse", [0, 0], [1, 0]),
        environment("unplayed"),
    ]
    found = statistics.environments(played, [])
    assert found["designer/environments"] == 4
    assert found["designer/trivial_fraction"] == 0.25
    assert found["designer/hard_fraction"] == 0.25
    assert found["designer/in_band_fraction"] == 0.5
    assert found["designer/regret"] == pytest.approx(0.5 / 4)
    assert found["designer/hint_gap"] == pytest.approx(0.0)


def test_validity_counts_what_the_sandbox_accepts():
    attempts = [
        environment("a", family="x", knob=4),
        environment("b", family="y", knob=8, stage="degenerate"),
        environment("c", family="x", knob=6, stage="off_skill", verbatim=True),
        environment("d", stage="parse"),
    ]
    found = statistics.designs(attempts)
    advised = [
        environment("e", stage="hint", excused=True),
        environment("f", stage="audit"),
        environment("g", stage="hint"),
    ]
    more = statistics.designs([*attempts, *advised])
    assert more["designer/valid_fraction"] == pytest.approx(5 / 7)
    assert found["designer/valid_fraction"] == 0.75
    assert found["designer/accepted_fraction"] == 0.25
    assert found["designer/novel_fraction"] == pytest.approx(2 / 3)
    assert found["designer/knob_median"] == 6
    assert found["designer/rejected/parse"] == 1
    thirds = -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3)
    assert found["designer/family_entropy"] == pytest.approx(thirds)


def test_plays_leave_void_episodes_out():
    plain = [[episode(1), episode(0), episode(1), episode(1)],
             [episode(0, "void"), episode(0, "deadline")]]  # fmt: skip
    found = statistics.plays({"plain": plain, "hint": [[episode(1)], []]})
    assert found["agent/win_rate"] == pytest.approx(3 / 5)
    assert found["agent/win_rate_hint"] == 1.0
    assert found["agent/void_fraction"] == pytest.approx(1 / 7)
    assert found["agent/cut_fraction"] == pytest.approx(1 / 5)


def test_malformed_replies_are_counted_among_those_of_tool_use():
    def using(replies, malformed, tools=({},)):
        made = episode(1.0)
        made.tools, row = tools, Trajectory()
        made.transcript = [Message("user", ""), *[Message("assistant", "")] * replies]
        for number in range(replies):
            row.append_context([1])
            row.append_sampled([2, 3], [-1.0, -1.0], 0)
            if number < malformed:
                row.mark_malformed()
        made.trajectories = [row]
        return made

    plain = [[using(3, 1), using(2, 2)], [using(9, 0, tools=())]]
    found = statistics.plays({"plain": plain, "hint": []})
    assert found["agent/malformed_fraction"] == pytest.approx(3 / 5)
    games = statistics.plays({"plain": plain[1:], "hint": []})
    assert "agent/malformed_fraction" not in games


def test_cut_and_repaired_designs_are_counted_among_their_kind():
    attempts = [
        environment("a"), environment("b", stage="cut"), environment("c", stage="context"),
        environment("d", first_stage="leak", repaired=1),
        environment("e", first_stage="leak", repaired=2, stage="leak"),
    ]  # fmt: skip
    found = statistics.designs(attempts)
    assert found["designer/cut_fraction"] == pytest.approx(2 / 5)
    assert found["designer/repaired_fraction"] == 0.5
    assert "designer/repaired_fraction" not in statistics.designs(attempts[:3])


def test_each_skill_has_its_own_numbers():
    one = environment("a", [1, 1], [1, 0], skill="causal inference")
    two = environment("b", [1, 1], [0, 0])
    rejected = environment("c", stage="leak")
    episodes = {
        "plain": [[episode(1), episode(0)], [episode(0), episode(0)]],
        "hint": [[episode(1)], [episode(1)]],
    }
    fresh, live = [one, two, rejected], [one, two]
    found = statistics.by_skill(fresh, live, live, episodes)
    assert found["agent/win_rate/causal_inference"] == 0.5
    assert found["agent/win_rate_hint/s"] == 1.0 and found["agent/win_rate/s"] == 0.0
    assert found["designer/regret/causal_inference"] == 0.5
    assert found["designer/hard_fraction/s"] == found["designer/in_band_fraction/s"] + 1.0 == 1.0
    assert found["designer/valid_fraction/s"] == 0.5
    assert len(found) == 2 * len(statistics.PER_SKILL)


def test_a_skill_that_was_not_played_has_no_win_rate():
    found = statistics.by_skill([environment("c", stage="leak")], [], [], {})
    assert found == {"designer/valid_fraction/s": 0.0}


def test_only_averages_that_moved_are_reported():
    before = {"a b": SkillAverages(0.5, 0.25), "c": SkillAverages(0.0, 0.0)}
    after = before | {"a b": SkillAverages(0.75, 0.5)}
    found = statistics.averages(before, after)
    assert found == {"designer/return_fast/a_b": 0.75, "designer/return_slow/a_b": 0.5}


def test_novelty_and_reply_lengths_are_means_of_what_there_is():
    played = [environment("a", novelty=0.5), environment("b", novelty=1.0), environment("c")]
    assert statistics.environments(played, [])["designer/novelty"] == 0.75
    spoken = episode(1)
    spoken.trajectories = [Trajectory(mask=[0, 1, 1, 1, 0, 1])]
    spoken.transcript = [Message("user", "?"), Message("assistant", "a"), Message("assistant", "b")]
    found = statistics.plays({"plain": [[spoken]], "hint": [[]]})
    assert (found["agent/reply_tokens"], found["agent/tokens_per_reply"]) == (4, 2)


def test_the_memory_s_spread_is_reported_when_it_grows():
    memory = Memory(MemorySettings(), [Record("class AEnv: pass", "s", 0.5, 0.2, 0, family="f")])
    found = statistics.memory(memory, [environment("a")])
    assert found["memory/records"] == 1 and found["designer/coverage/family_entropy"] == 0.0
    assert not any("coverage" in name for name in statistics.memory(memory, []))


def test_nothing_is_reported_for_what_did_not_happen():
    assert statistics.designs([]) == {}
    assert "designer/regret" not in statistics.environments([], [])
    assert "agent/win_rate" not in statistics.plays({"plain": [], "hint": []})


def test_rates_divide_counts_by_the_seconds_of_their_phase():
    counts = {"sampler/designer/sampled_tokens": 300, "sampler/agent/sampled_tokens": 50,
              "agent/steps": 10, "sampler/agent/waited_seconds": 1.5}  # fmt: skip
    speaking = {"designer": ("design", "hint"), "agent": ("play", "judge")}
    times = {"time/design": 2.0, "time/play": 5.0, "time/step": 15.0}
    found = statistics.rates(counts, times, speaking)
    assert found == {"rate/designer_tokens": 150, "rate/agent_tokens": 10,
                     "rate/environment_steps": 2, "rate/waiting_for_environments": 0.1}  # fmt: skip
    assert statistics.rates(counts, {"time/play": 5.0}, speaking).keys() == {
        "rate/agent_tokens", "rate/environment_steps"
    }  # fmt: skip
    found = statistics.rates(counts, times | {"time/hint": 1.0, "time/judge": 20.0}, speaking)
    assert (found["rate/designer_tokens"], found["rate/agent_tokens"]) == (100, 2)
    assert found["rate/environment_steps"] == 2


def test_retired_environments_are_part_of_what_was_played():
    spoken = episode(1)
    spoken.transcript = [Message("user", "?"), Message("assistant", "a"), Message("assistant", "b")]
    found = statistics.amounts({"plain": [[spoken], [spoken]], "hint": [[episode(1)], []]})
    assert found == {"agent/episodes": 3, "agent/steps": 4}


class Two(Hosts):
    """Two processes of which the other one has done nothing but four steps of its slots."""

    def all(self, what, value):
        counted, programs = value
        return [value, (dict.fromkeys(counted, 0) | {"slot_steps": 4}, programs + 1)]


@pytest.mark.parametrize("hosts,use,programs", [(Hosts(), 0.75, 5), (Two(), 0.5, 6)])
def test_the_engines_of_all_processes_are_counted_together(hosts, use, programs):
    stats = Stats(sampled_tokens=6, prefilled_tokens=3, slot_steps=8)
    engine = SimpleNamespace(stats=stats, compiles=lambda: 5)
    found = statistics.sampling({"agent": engine}, hosts)
    assert found["sampler/agent/sampled_tokens"] == 6
    assert found["sampler/agent/prefilled_tokens"] == 3
    assert found["sampler/agent/slot_use"] == use
    assert found["sampler/agent/programs"] == programs
