"""The step's numbers, by hand."""

import math
from types import SimpleNamespace

import pytest

from spade_jax import statistics
from spade_jax.designer import Environment
from spade_jax.parallel import Hosts
from spade_jax.rollout import Episode, PlaySettings, Task, Trajectory
from spade_jax.sampler import Stats


def environment(name, hint=(), plain=(), **more):
    return Environment(
        name, "s", None, "r", 0, Trajectory(), source=name, hint_returns=list(hint),
        windows=[list(plain)], **more,
    )  # fmt: skip


def episode(reward, outcome="terminated", seed=0):
    made = Episode(Task(None, seed, 0, PlaySettings(1.0, 5, 8)))
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
    assert statistics.designs(
        [*attempts, environment("e", stage="hint", excused=True), environment("f", stage="hint")]
    )["designer/valid_fraction"] == pytest.approx(4 / 6)
    assert found["designer/valid_fraction"] == 0.75
    assert found["designer/accepted_fraction"] == 0.25
    assert found["designer/novel_fraction"] == pytest.approx(2 / 3)
    assert found["designer/knob_median"] == 6
    assert found["designer/rejected/parse"] == 1
    thirds = -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3)
    assert found["designer/family_entropy"] == pytest.approx(thirds)


def test_plays_leave_void_episodes_out_and_count_groups():
    plain = [[episode(1, seed=1), episode(0, seed=1), episode(1, seed=2), episode(1, seed=2)],
             [episode(0, "void", seed=3), episode(0, "deadline", seed=3)]]  # fmt: skip
    found = statistics.plays({"plain": plain, "hint": [[episode(1)], []]}, "seed", ("plain",))
    assert found["agent/win_rate"] == pytest.approx(3 / 5)
    assert found["agent/win_rate_hint"] == 1.0
    assert found["agent/zero_variance_groups"] == pytest.approx(2 / 3)
    both = statistics.plays({"plain": plain, "hint": [[episode(1)], []]}, "seed", ("plain", "hint"))
    assert both["agent/zero_variance_groups"] == pytest.approx(3 / 4)
    assert found["agent/void_fraction"] == pytest.approx(1 / 7)
    assert found["agent/cut_fraction"] == pytest.approx(1 / 5)


def test_nothing_is_reported_for_what_did_not_happen():
    assert statistics.designs([]) == {}
    assert "designer/regret" not in statistics.environments([], [])
    assert "agent/win_rate" not in statistics.plays({"plain": [], "hint": []}, "seed", ("plain",))


def test_rates_divide_counts_by_the_seconds_of_their_phase():
    counts = {"sampler/designer/sampled_tokens": 300, "sampler/agent/sampled_tokens": 50,
              "agent/steps": 10, "sampler/agent/waited_seconds": 1.5}  # fmt: skip
    found = statistics.rates(counts, {"time/design": 2.0, "time/play": 5.0, "time/step": 15.0})
    assert found == {"rate/designer_tokens": 150, "rate/agent_tokens": 10,
                     "rate/environment_steps": 2, "rate/waiting_for_environments": 0.1}  # fmt: skip
    assert statistics.rates(counts, {"time/play": 5.0}).keys() == {
        "rate/agent_tokens", "rate/environment_steps"
    }  # fmt: skip


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
