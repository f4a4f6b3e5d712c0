"""Which plays are trained, and with which advantage."""

from types import SimpleNamespace

import numpy as np
import pytest

from configs import base
from spade_jax.cycle import agent_rows, scored_plays, update
from spade_jax.cycle.crediting import group_metrics
from spade_jax.designer import Environment
from spade_jax.rl import DesignerAdvantageSettings
from spade_jax.rollout import Episode, Trajectory
from spade_jax.text import Message


def episode(won, *replies, outcome="terminated", seed=0, tools=()):
    row = Trajectory()
    row.append_sampled([5], [-1.0], 0)
    transcript = [Message("assistant", reply) for reply in replies]
    task = SimpleNamespace(seed=seed)
    return Episode(
        task, [row], transcript, outcome=outcome, reward=float(won), tools=tools
    )


class Recorder:
    """A learner that keeps its batches and whose gradient is 1."""

    def __init__(self):
        self.batches = []

    def gradients(self, params, batch, temperature, reference):
        self.batches.append(batch)
        return 1, {"logprob_gap": float(batch.weights.sum())}

    def add(self, total, gradients):
        return (total or 0) + gradients

    def norm(self, gradients):
        return gradients

    def apply(self, state, gradients):
        return state, {}


def reply_row(*replies, malformed=()):
    """A row of replies, each a list of ids, after a token of context."""
    row = Trajectory()
    for number, ids in enumerate(replies):
        row.append_context([1])
        row.append_sampled(ids, [-1.0] * len(ids), 0)
        if number in malformed:
            row.mark_malformed()
    return row


def trained(plays, designs=(), **changes):
    """Trained token -> its weight in the loss of an update with these rows, and its metrics."""
    config, learner = base.get_config(), Recorder()
    config.update_from_flattened_dict(changes)
    for role in ("designer", "agent"):
        config.learner[role].rows, config.learner[role].length = 1, 8
    rooms = SimpleNamespace(
        config=config, learner=learner, advantage_settings=DesignerAdvantageSettings()
    )
    state = SimpleNamespace(
        learner=SimpleNamespace(params=None, version=0), reference=None,
        records=SimpleNamespace(baselines={}),
    )  # fmt: skip
    group = [episode(k % 2) for k in range(len(plays))]
    for play, row in zip(group, plays, strict=True):
        play.trajectories = [row]
    due = [Environment(str(k), "s", None, "", 0, row) for k, row in enumerate(designs)]
    for design in due:
        design.reward = 1.0
    environments = [SimpleNamespace(name="a", skill="s")]
    _, metrics = update(rooms, state, environments, {"plain": [group], "hint": [[]]}, due)
    weights = {
        int(token): float(weight)
        for batch in learner.batches
        for token, weight in zip(batch.targets.flat, batch.weights.flat, strict=True)
        if weight
    }
    return weights, metrics


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


@pytest.mark.parametrize("domain", ["games", "tool_use"])
@pytest.mark.parametrize(
    "tools,other,bonus", [(({},), "<tool_call>no</tool_call>", 0.1), ((), r"\boxed{1}", -0.1)]
)
def test_the_form_is_that_of_the_environment_whatever_the_domain(domain, tools, other, bonus):
    group = [episode(1, "<answer>1</answer>", tools=tools), episode(1, other, tools=tools)]
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


PLAYS = reply_row([10, 11]), reply_row([12, 13, 14], [15], malformed=(1,))
DESIGNS = (reply_row([20, 21, 22, 23]),)


def test_the_mean_over_all_trained_tokens_knows_no_roles():
    weights, metrics = trained(PLAYS, DESIGNS, **{"learner.aggregation": "token"})
    assert weights == pytest.approx(dict.fromkeys([*range(10, 16), *range(20, 24)], 1 / 10))
    for role in ("agent", "designer"):  # a mean over the role's own tokens
        assert metrics[f"{role}/logprob_gap"] == pytest.approx(1.0)
    masked = {"learner.aggregation": "token", "agent.mask_malformed": True}
    weights, _ = trained(PLAYS, DESIGNS, **masked)
    assert weights == pytest.approx(dict.fromkeys([*range(10, 15), *range(20, 24)], 1 / 9))


def test_the_mean_over_episodes_knows_no_roles_either():
    weights, _ = trained(PLAYS, DESIGNS)
    of_two, of_four = dict.fromkeys([10, 11], 1 / 3 / 2), range(12, 16)
    assert weights == pytest.approx(of_two | dict.fromkeys([*of_four, *range(20, 24)], 1 / 3 / 4))
    weights, _ = trained(PLAYS, DESIGNS, **{"learner.normalise": "role"})
    assert sum(weights[token] for token in range(20, 24)) == pytest.approx(1.0)
    assert sum(weights[token] for token in range(10, 16)) == pytest.approx(1.0)


@pytest.mark.parametrize("aggregation", ["trajectory", "token"])
def test_malformed_replies_are_masked_on_demand(aggregation):
    changes = {"learner.aggregation": aggregation}
    row = reply_row([10, 11], [12], [13, 14], malformed=(1,))
    assert trained([row], **changes)[0].keys() == {10, 11, 12, 13, 14}
    changes["agent.mask_malformed"] = True
    assert trained([row], **changes)[0] == pytest.approx(dict.fromkeys([10, 11, 13, 14], 1 / 4))
    weights, metrics = trained([reply_row([10], malformed=(0,))], DESIGNS, **changes)
    assert weights.keys() == {20, 21, 22, 23} and "agent/grad_norm" not in metrics
