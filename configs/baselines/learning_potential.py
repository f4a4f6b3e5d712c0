r"""Baseline of games_qwen3_30b_a3b: fixed environments, chosen where the accuracy changes.

Command    python -m spade_jax.main --config=configs/baselines/learning_potential.py \
               --workdir=runs/learning_potential
           on every host of the slice
Hardware   as configs/games_qwen3_30b_a3b.py
Time       as configs/baselines/sliding_window.py, which also says how to bring environments
Expect     picks that follow the Agent from easy levels to harder ones
"""

from configs.baselines import sliding_window


def get_config():
    c = sliding_window.get_config()
    c.curriculum.adaptive.controller = "learning_potential"
    return c
