r"""Ablation of games_qwen3_30b_a3b: a frozen designer without memory.

Command    python -m spade_jax.main --config=configs/ablations/no_designer_training_no_memory.py \
               --workdir=runs/no_designer_training_no_memory
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet at its size: `--mode=explain` counts what a step costs
Expect     the gap that training the designer closes
"""

from configs import games_qwen3_30b_a3b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_30b_a3b.get_config()
    c.designer.train = False
    c.memory.enabled = False
    return sizes.fit(c, size)
