r"""RLVE's baseline on Qwen3-30B-A3B: fixed environments whose difficulty a sliding window raises.

Command    python -m spade_jax.main --config=configs/fixed_pool_sliding_window.py \
               --workdir=runs/sliding_window --config.curriculum.folder=FOLDER
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name.
           FOLDER holds environments with levels, of RLVE's or GEM's dialect or of ours
           (spade_jax/curricula/graded.py). Without it they are 16 games of the seed library.
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet: `--mode=explain` counts what a step costs
Expect     a level that rises by one whenever 90% of 128 plays at the top level succeed
"""

from configs import games_qwen3_30b_a3b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_30b_a3b.get_config()
    c.curriculum.source = "adaptive"
    c.curriculum.adaptive.controller = "sliding_window"
    c.curriculum.num_envs = 16
    c.agent.plays_per_env = 16
    return sizes.fit(c, size)
