"""Which plays are trained, and with which advantage."""

from types import SimpleNamespace

import numpy as np
import pytest

from configs import base
from spade_jax.cycle import agent_rows, scored_plays
from spade_jax.cycle.crediting import group_metrics
from spade_jax.rollout import Episode, Trajectory
from spade_jax.text import Message


def episode(won, *replies, outcome="terminated", seed=0):
    row = Trajectory()
    row.append_sampled([5], [-1.0], 0)
    transcript = [Message("assistant", reply) for reply in replies]
    task = SimpleNamespace(seed=seed)
    return Episode(task, [row], transcript, outcome=outcome, reward=float(won))


def rows(*groups, **changes):
    """`agent_rows` of environments with these plays without the hint."""
    config = base.get_config()
    config.agent.normalise = False
    config.update_from_flattened_dict(changes)
    environments = [SimpleNamespace(name=str(k)) for k in range(len(groups))]
    episodes = {"plain": list(groups), "hint": [[] for _ in groups]}
    return agent_rows(config, scored_plays(config, environments, episodes))


def test_groups_without_variance_can_be_dropped_and_then_do_not_count():
    same, mixed = [episode(1), episode(1)], [episode(1), episode(0)]
    plays, advantages = rows(same, mixed)
    assert len(plays) == 4
    plays, advantages = rows(same, mixed, **{"learner.drop_zero_variance": True})
    assert plays == mixed
    np.testing.assert_allclose(advantages, [0.5, -0.5])
    plays, advantages = rows(same, **{"learner.drop_zero_variance": True})
    assert plays == [] and len(advantages) == 0


def test_masked_plays_are_the_baseline_of_those_that_are_trained():
    wins = [episode(1) for _ in range(8)]
    group = [*wins, *(episode(0, outcome="truncated") for _ in range(8))]
    settings = {"learner.mask_truncated": True, "learner.drop_zero_variance": True}
    plays, advantages = rows(group, **settings)
    assert plays == wins
    np.testing.assert_allclose(advantages, [0.5] * 8)
    np.testing.assert_allclose(rows(group, **settings, **{"agent.normalise": True})[1], [1.0] * 8)
    assert rows(group[8:], **settings)[0] == []


def test_a_moving_baseline_is_kept_by_the_environment_and_never_divided():
    config = base.get_config()
    config.agent.baseline, config.agent.train_hint_arm = "moving", True
    environment = SimpleNamespace(name="a", baselines={})

    def advantages(plain, hint):
        episodes = {"plain": [[episode(won) for won in plain]],
                    "hint": [[episode(won) for won in hint]]}  # fmt: skip
        return agent_rows(config, scored_plays(config, [environment], episodes))[1]

    np.testing.assert_allclose(advantages([1, 0, 0, 0], [1, 1]), [0.75, -0.25, -0.25, -0.25, 0, 0])
    assert environment.baselines == {"plain": 0.25, "hint": 1.0}
    np.testing.assert_allclose(advantages([1, 1], []), [0.75, 0.75])
    assert environment.baselines == {"plain": 0.625, "hint": 1.0}
    np.testing.assert_allclose(advantages([0, 1], [0]), [-0.625, 0.375, -1.0])
    assert environment.baselines == {"plain": 0.5625, "hint": 0.5}


def test_the_format_bonus_is_added_to_the_return_of_a_game_that_boxes_every_action():
    boxed, bare = r"I go \boxed{left}", "left"
    group = [episode(1, boxed, boxed), episode(1, boxed, bare), episode(0, boxed)]
    plays, advantages = rows(group, **{"agent.format_bonus": 0.25})
    # 1.25, 0.75 and 0.25 with the mean 0.75
    np.testing.assert_allclose(advantages, [0.5, 0.0, -0.5])
    assert [play.final_return for play in plays] == [1, 1, 0]
    np.testing.assert_allclose(rows(group)[1], [1 / 3, 1 / 3, -2 / 3])


@pytest.mark.parametrize("domain,bonus", [("tool_use", 0.1), ("games", -0.1)])
def test_the_form_of_tool_use_is_another_one(domain, bonus):
    other = {"tool_use": "<tool_call>no</tool_call>", "games": r"\boxed{1}"}[domain]
    group = [episode(1, "<answer>1</answer>"), episode(1, other)]
    changes = {"agent.format_bonus": 0.1, "curriculum.domain": domain}
    np.testing.assert_allclose(rows(group, **changes)[1], [bonus, -bonus])


def test_groups_without_variance_are_counted_as_they_are_trained():
    config = base.get_config()
    config.agent.group, config.agent.format_bonus = "seed", 0.25
    environments = [SimpleNamespace(name=str(k), skill=s) for k, s in enumerate(("a b", "c", ""))]
    boxed = r"\boxed{1}"
    plain = [
        [episode(1, boxed, seed=1), episode(1, "1", seed=1), episode(1, boxed, seed=2)],
        [episode(1, boxed), episode(0, boxed, outcome="void")],
        [episode(0, boxed), episode(0, boxed, outcome="cut"), episode(1, boxed)],
    ]
    hint = [[episode(1, boxed), episode(1, boxed)], [], []]

    def counted():
        plays = scored_plays(config, environments, {"plain": plain, "hint": hint})
        return group_metrics(environments, plays)

    found = counted()  # the bonus tells the first two plays apart
    name = "agent/zero_variance_groups"
    assert found == {name: 2 / 4, f"{name}/a_b": 1 / 2, f"{name}/c": 1.0}
    config.agent.train_hint_arm = True
    assert counted() == {name: 3 / 5, f"{name}/a_b": 2 / 3, f"{name}/c": 1.0}
    config.agent.format_bonus = 0.0
    assert counted() == {name: 4 / 5, f"{name}/a_b": 1.0, f"{name}/c": 1.0}


def test_a_skill_whose_plays_say_nothing_has_no_group_to_count():
    environments = [SimpleNamespace(name="0", skill="a")]
    name = "agent/zero_variance_groups"
    assert group_metrics(environments, []) == {name: 0.0, f"{name}/a": 0.0}
