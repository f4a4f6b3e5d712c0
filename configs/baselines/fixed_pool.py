r"""Baseline of games_qwen3_30b_a3b: environments that were written in advance, and no designer.

Command    python -m spade_jax.main --config=configs/baselines/fixed_pool.py \
               --workdir=runs/fixed_pool --config.curriculum.folder=runs/games_30b/environments
           on every host of the slice; the folder may be any: docs/curricula.md
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet: less than docs/pods.md estimates, as nothing is designed
Expect     environments that go stale: their share above a win rate of 0.8 grows
"""

from configs import games_qwen3_30b_a3b


def get_config():
    c = games_qwen3_30b_a3b.get_config()
    c.curriculum.source = "folder"
    c.curriculum.folder = "environments"
    return c
