"""Which plays are trained, and with which advantage."""

from types import SimpleNamespace

import numpy as np
import pytest

from configs import base
from spade_jax.cycle import agent_rows
from spade_jax.rollout import Episode, Trajectory
from spade_jax.text import Message


def episode(won, *replies, tools=()):
    row = Trajectory()
    row.append_sampled([5], [-1.0], 0)
    transcript = [Message("assistant", reply) for reply in replies]
    task = SimpleNamespace(seed=0)
    return Episode(task, [row], transcript, outcome="terminated", reward=float(won), tools=tools)


def rows(*groups, **changes):
    """`agent_rows` of environments with these plays without the hint."""
    config = base.get_config()
    config.agent.normalise = False
    config.update_from_flattened_dict(changes)
    environments = [SimpleNamespace(name=str(k)) for k in range(len(groups))]
    episodes = {"plain": list(groups), "hint": [[] for _ in groups]}
    return agent_rows(SimpleNamespace(config=config), environments, episodes)


def test_groups_without_variance_can_be_dropped_and_then_do_not_count():
    same, mixed = [episode(1), episode(1)], [episode(1), episode(0)]
    plays, advantages = rows(same, mixed)
    assert len(plays) == 4
    plays, advantages = rows(same, mixed, **{"learner.drop_zero_variance": True})
    assert plays == mixed
    np.testing.assert_allclose(advantages, [0.5, -0.5])
    plays, advantages = rows(same, **{"learner.drop_zero_variance": True})
    assert plays == [] and len(advantages) == 0


def test_the_format_bonus_is_added_to_the_return_of_a_game_that_boxes_every_action():
    boxed, bare = r"I go \boxed{left}", "left"
    group = [episode(1, boxed, boxed), episode(1, boxed, bare), episode(0, boxed)]
    plays, advantages = rows(group, **{"agent.format_bonus": 0.25})
    # 1.25, 0.75 and 0.25 with the mean 0.75
    np.testing.assert_allclose(advantages, [0.5, 0.0, -0.5])
    assert [play.final_return for play in plays] == [1, 1, 0]
    np.testing.assert_allclose(rows(group)[1], [1 / 3, 1 / 3, -2 / 3])


@pytest.mark.parametrize("domain", ["games", "tool_use"])
@pytest.mark.parametrize(
    "tools,other,bonus", [(({},), "<tool_call>no</tool_call>", 0.1), ((), r"\boxed{1}", -0.1)]
)
def test_the_form_is_that_of_the_environment_whatever_the_domain(domain, tools, other, bonus):
    group = [episode(1, "<answer>1</answer>", tools=tools), episode(1, other, tools=tools)]
    changes = {"agent.format_bonus": 0.1, "curriculum.domain": domain}
    np.testing.assert_allclose(rows(group, **changes)[1], [bonus, -bonus])
