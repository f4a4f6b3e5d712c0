"""How the tests play the seed library's families."""

import numpy as np

from spade_jax.envs.library import Mixture, expert_episode

CLEAR = Mixture(vague_hints=0.0)
KNOBS = (2, 3, 6, 13, 22, 36, 50, 60)


def play(family, knob, with_hint, noise=0.0, count=70):
    """(win rate, mean turns of the won episodes) over fresh environments with clear hints."""
    rng = np.random.default_rng(7)
    played = [
        expert_episode(family.sample(rng, knob, CLEAR), seed, with_hint, noise, rng)
        for seed in range(count)
    ]
    won = [len(episode.turns) for episode in played if episode.final_return == 1.0]
    return len(won) / count, float(np.mean(won)) if won else float("inf")
