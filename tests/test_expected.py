"""The cost of a step, against counts worked out by hand."""

import pytest

from configs import base
from spade_jax import models
from spade_jax.expected import Lengths, most, step_cost
from spade_jax.models import flops


@pytest.fixture
def config():
    c = base.get_config()
    c.curriculum.num_envs, c.curriculum.max_attempts, c.curriculum.regen_interval = 2, 3, 4
    c.agent.plays_per_env, c.agent.hint_plays_per_env = 5, 8
    c.sampler.designer.max_len, c.sampler.agent.max_len = 100, 40
    return c


HALF = Lengths(design=0.5, play=0.25, sampled=0.5, attempts=2.0)


def test_counts_of_a_step(config):
    model = models.of_recipe(config)
    cost = step_cost(config, model, HALF)
    assert cost.environments == 2
    assert cost.designs == 2 * 2 / 4
    assert cost.plays == 2 * 5 + 2 * 8 / 4
    tokens = 1 * 50 + 14 * 10  # a design fills 50 of 100 positions, an episode 10 of 40
    assert cost.sampled == cost.read == tokens / 2
    # half an accepted design a step, and the plays without the hint
    assert cost.trained == 0.5 * 50 + 10 * 10
    expected = flops.forward_flops(model, 50, 25, 25) + 14 * flops.forward_flops(model, 10, 5, 5)
    assert cost.sampling_flops == pytest.approx(expected)


def test_what_is_trained_besides(config):
    model = models.of_recipe(config)
    plain = step_cost(config, model, HALF)
    config.agent.train_hint_arm = config.designer.train_invalid = True
    more = step_cost(config, model, HALF)
    assert more.trained == 1 * 50 + 14 * 10
    config.learner.kl = 0.01
    assert step_cost(config, model, HALF).learning_flops > more.learning_flops
    assert step_cost(config, model, HALF).sampling_flops == plain.sampling_flops
    config.designer.train = False
    assert step_cost(config, model, HALF).trained == 14 * 10


def test_at_most_every_context_is_full_and_every_attempt_used(config):
    cost = step_cost(config, models.of_recipe(config), most(config))
    assert cost.designs == 2 * 3 / 4
    assert cost.sampled == 1.5 * 100 + 14 * 40 and cost.read == 0


def test_roles_of_equal_context_are_both_counted(config):
    config.sampler.designer.max_len = config.sampler.agent.max_len = 100
    assert step_cost(config, models.of_recipe(config), most(config)).sampled == 15.5 * 100
