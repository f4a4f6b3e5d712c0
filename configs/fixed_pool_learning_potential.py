r"""The learning-potential baseline on Qwen3-30B-A3B: fixed environments, picked by what they teach.

Command    python -m spade_jax.main --config=configs/fixed_pool_learning_potential.py \
               --workdir=runs/potential --config.curriculum.folder=FOLDER
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name.
           FOLDER is as in configs/fixed_pool_sliding_window.py
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet: `--mode=explain` counts what a step costs
Expect     half of the picks where two moving averages of the accuracy part, half at random
"""

from configs import fixed_pool_sliding_window, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = fixed_pool_sliding_window.get_config()
    c.curriculum.adaptive.controller = "learning_potential"
    return sizes.fit(c, size)
