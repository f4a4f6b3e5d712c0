"""Learning health: the whole update, through sampler and learner, moves what it should."""

import jax
import numpy as np
import pytest

from spade_jax import models, parallel
from spade_jax.rl import (
    Learner,
    LossSettings,
    OptimizerSettings,
    group_advantages,
    pack,
    token_weights,
)
from spade_jax.rollout import Trajectory
from spade_jax.sampler import Engine, EngineSettings, Request

CONFIG = models.preset("tiny", num_layers=1, vocab_size=24, d_model=32, head_dim=8, d_ff=32)
PULLS = 64
PROMPTS = {"agent": [1, 2, 3], "designer": [1, 4, 5]}


class Bandit:
    """One-token episodes: the reward is 1 for token 7, else 0."""

    def __init__(self):
        mesh = parallel.make_mesh({}, jax.devices()[:1])
        settings = OptimizerSettings(3e-2, weight_decay=0.0)
        self.learner = Learner(CONFIG, mesh, "policy", LossSettings(), settings)
        slots = EngineSettings(PULLS, 8, prefill_chunks=(8,), decode_chunk=2)
        self.engine = Engine(CONFIG, mesh, slots)
        state = self.learner.init(jax.random.key(0))
        flat = jax.tree.map(lambda leaf: 0.3 * leaf, state.params)  # close to uniform
        self.state = self.learner.adopt(flat)

    def sample(self, role, step):
        self.engine.load(self.state.params, int(self.state.version))
        requests = [Request(PROMPTS[role], 1, 1000 * step + k, 1.0, ()) for k in range(PULLS)]
        handles = [self.engine.submit(request) for request in requests]
        turns = {}
        while len(turns) < PULLS:
            for turn in self.engine.advance():
                turns[turn.handle] = turn
                turn.handle.close()
        rows = []
        for handle in handles:
            row = Trajectory()
            row.append_context(PROMPTS[role])
            row.append_sampled(turns[handle].tokens, turns[handle].logprobs, 0)
            rows.append(row)
        return rows

    def update(self, rows, advantages):
        weights = token_weights(rows, "trajectory")
        (batch,) = pack(rows, advantages, weights, 16, 16)
        gradient, sums = self.learner.gradients(self.state.params, batch, 1.0)
        self.state, _ = self.learner.apply(self.state, gradient)
        return sums

    def policy(self, role):
        ids = np.asarray([PROMPTS[role]])
        hidden = models.hidden_packed(
            CONFIG, self.state.params, ids, np.arange(3)[None], np.ones_like(ids)
        )
        return jax.nn.softmax(models.logits(CONFIG, self.state.params, hidden)[0, -1])


def wins(rows):
    return [float(row.tokens[-1] == 7) for row in rows]


def test_the_update_raises_the_win_rate_of_a_bandit_and_the_gap_stays_small():
    bandit = Bandit()
    before = float(bandit.policy("agent")[7])
    for step in range(25):
        rows = bandit.sample("agent", step)
        sums = bandit.update(rows, group_advantages(wins(rows), [0] * PULLS))
        assert float(sums["logprob_gap"]) < 1e-4
    assert before < 0.15
    assert float(bandit.policy("agent")[7]) > 0.8


def test_each_role_moves_only_by_its_own_advantages():
    bandit = Bandit()
    agent, designer = bandit.sample("agent", 0), bandit.sample("designer", 1)
    zeros = np.zeros(PULLS)
    push = np.where(np.asarray(wins(designer)) > 0, 1.0, -0.2)
    want = Bandit()
    want.update(designer, push)
    weights = token_weights(designer, "trajectory")
    total = None
    for rows, advantages in ((agent, zeros), (designer, push)):
        (batch,) = pack(rows, advantages, weights, 16, 16)
        gradient, _ = bandit.learner.gradients(bandit.state.params, batch, 1.0)
        total = bandit.learner.add(total, gradient)
    bandit.state, _ = bandit.learner.apply(bandit.state, total)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7),
        bandit.state.params, want.state.params,
    )  # fmt: skip


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_sign_of_the_advantage_decides_the_direction(sign):
    bandit = Bandit()
    rows = [row for row in bandit.sample("agent", 0) if row.tokens[-1] == 7][:1]
    assert rows
    before = float(bandit.policy("agent")[7])
    bandit.update(rows, [sign])
    assert (float(bandit.policy("agent")[7]) - before) * sign > 0
