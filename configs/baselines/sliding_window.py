r"""Baseline of games_qwen3_30b_a3b: fixed environments that grow harder, as in RLVE.

Command    python -m spade_jax.main --config=configs/baselines/sliding_window.py \
               --workdir=runs/sliding_window
           on every host of the slice; environments of your own with
           --config.curriculum.folder=DIR: docs/curricula.md
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet: less than docs/pods.md estimates, as nothing is designed
Expect     levels that rise while the seed library's 16 environments stay the same
"""

from configs import games_qwen3_30b_a3b


def get_config():
    c = games_qwen3_30b_a3b.get_config()
    c.curriculum.source = "adaptive"
    c.curriculum.num_envs = 16
    c.agent.plays_per_env = 16  # of one problem
    c.agent.seeds_per_env = 1
    return c
