"""The cost of a step, against counts worked out by hand."""

import dataclasses

import pytest

from configs import base
from spade_jax import models
from spade_jax.expected import ASSUMED, Cost, Lengths, most, step_cost
from spade_jax.models import flops

HALF = Lengths(
    design=0.5, play=0.25, sampled=0.5, answer=0.5, attempts=2.0, repaired=0.5, sound=0.25
)


@pytest.fixture
def config():
    c = base.get_config()
    c.curriculum.num_envs, c.curriculum.max_attempts, c.curriculum.regen_interval = 2, 3, 4
    c.agent.plays_per_env, c.agent.hint_plays_per_env = 5, 8
    c.sampler.designer.max_len, c.sampler.agent.max_len = 100, 40
    return c


def cost_of(config, lengths=HALF) -> Cost:
    return step_cost(config, models.of_recipe(config), lengths)


def test_counts_of_a_step(config):
    model = models.of_recipe(config)
    cost = cost_of(config)
    assert cost.environments == 2
    assert cost.designs == 2 * 2 / 4
    assert cost.plays == 2 * 5 + 2 * 8 / 4
    assert cost.questions == 0
    tokens = 1 * 50 + 14 * 10  # a design fills 50 of 100 positions, an episode 10 of 40
    assert cost.sampled == cost.read == tokens / 2
    # half an accepted design a step, and the plays without the hint
    assert cost.trained == 0.5 * 50 + 10 * 10
    expected = flops.forward_flops(model, 50, 25, 25) + 14 * flops.forward_flops(model, 10, 5, 5)
    assert cost.sampling_flops == pytest.approx(expected)


def test_what_is_trained_besides(config):
    plain = cost_of(config)
    config.agent.train_hint_arm = config.designer.train_invalid = True
    more = cost_of(config)
    assert more.trained == 1 * 50 + 14 * 10
    config.learner.kl = 0.01
    assert cost_of(config).learning_flops > more.learning_flops
    assert cost_of(config).sampling_flops == plain.sampling_flops
    config.designer.train = False
    assert cost_of(config).trained == 14 * 10


@pytest.mark.parametrize(
    "changes,plays",
    [
        ({"source": "folder", "folder": "worlds"}, 2 * 5 + 2 * 8),
        ({"source": "pool", "fixed_pool": 4}, 2 * 5 + 2 * 8),
        ({"fixed_pool": 4}, 2 * 5 + 2 * 8),
        ({"source": "adaptive"}, 2 * 5),
    ],
)
def test_where_nobody_designs_nothing_but_plays_is_sampled_and_trained(config, changes, plays):
    config.curriculum.update(changes)
    config.designer.train_invalid = config.audit.enabled = config.designer.self_judge = True
    config.designer.repair_turns, config.hints.source = 2, "self"
    config.audit.source = "self"
    for lengths, episode in ((HALF, 10), (most(config), 40)):
        cost = cost_of(config, lengths)
        assert (cost.designs, cost.questions, cost.plays) == (0, 0, plays)
        assert cost.sampled + cost.read == plays * episode
        assert cost.trained == 10 * episode  # without the hint
    config.agent.train_hint_arm = True
    assert cost_of(config).trained == plays * 10


def test_what_has_retired_is_played_without_a_hint_and_trained(config):
    config.curriculum.replay_envs = 3
    cost = cost_of(config)
    assert cost.environments == 2 and cost.plays == (2 + 3) * 5 + 2 * 8 / 4
    assert cost.trained == 0.5 * 50 + 25 * 10


def test_repairs_are_designs_that_are_not_trained(config):
    config.designer.repair_turns, config.designer.train_invalid = 2, True
    cost = cost_of(config)
    assert cost.designs == 1 + 1 * 2 * 0.5  # one design a step, half of its repair turns taken
    assert cost.sampled == (2 * 50 + 14 * 10) / 2
    assert cost.trained == 1 * 50 + 10 * 10
    assert cost_of(config, most(config)).designs == 1.5 * (1 + 2)


def test_what_the_model_is_asked_about_environments_costs_tokens(config):
    config.hints.source = config.audit.source = "self"
    config.hints.max_new_tokens, config.audit.max_new_tokens = 20, 8
    plain = cost_of(config)  # nobody audits yet
    assert plain.questions == 1 * 0.25
    assert plain.sampled == 190 / 2 + 0.25 * 10
    assert plain.read == 190 / 2 + 0.25 * 25  # the source, half of a design of 50
    config.audit.enabled = True
    config.designer.self_judge, config.designer.self_judge_tokens = True, 16
    cost = cost_of(config)
    assert cost.questions == 0.25 + 0.25 + 0.5
    assert cost.sampled == plain.sampled + 0.25 * 4 + 0.5 * 8
    # a judge is shown the play too: 25 + 10, of which 40 - 8 tokens have room
    assert cost.read == plain.read + 0.25 * 25 + 0.5 * 32
    assert cost.trained == plain.trained
    config.designer.repair_turns = 1
    assert cost_of(config).questions == 2 * 1.5 * 0.25 + 0.5
    config.audit.source = config.hints.source = "external"
    assert cost_of(config).questions == 0.5


def test_at_most_every_context_is_full_and_every_attempt_used(config):
    cost = cost_of(config, most(config))
    assert cost.designs == 2 * 3 / 4
    assert cost.sampled == 1.5 * 100 + 14 * 40 and cost.read == 0
    config.hints.source, config.hints.max_new_tokens = "self", 30
    asked = cost_of(config, most(config))
    assert asked.sampled == cost.sampled + 1.5 * 30 and asked.read == 1.5 * 70


def test_no_step_is_expected_to_cost_more_than_it_can(config):
    config.hints.source = config.audit.source = "self"
    config.audit.enabled = config.designer.self_judge = True
    config.hints.max_new_tokens = config.audit.max_new_tokens = 50
    config.designer.self_judge_tokens, config.designer.repair_turns = 20, 1
    expected, bound = cost_of(config, ASSUMED), cost_of(config, most(config))
    for field in dataclasses.fields(Cost):
        if field.name != "read":  # what is not read is written, at most
            assert getattr(expected, field.name) <= getattr(bound, field.name), field.name
    assert expected.sampled + expected.read <= bound.sampled + bound.read


def test_roles_of_equal_context_are_both_counted(config):
    config.sampler.designer.max_len = config.sampler.agent.max_len = 100
    assert cost_of(config, most(config)).sampled == 15.5 * 100
