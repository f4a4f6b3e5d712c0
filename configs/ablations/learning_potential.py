r"""Ablation of games_qwen3_30b_a3b: the designer is paid learning potential in place of the blend.

Command    python -m spade_jax.main --config=configs/ablations/learning_potential.py \
               --workdir=runs/learning_potential
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet at its size: `--mode=explain` counts what a step costs
Expect     a reward that needs no hint, and follows the skill's history
"""

from configs import games_qwen3_30b_a3b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_30b_a3b.get_config()
    c.designer.reward = "learning_potential"
    return sizes.fit(c, size)
