"""Ablation of games_qwen3_30b_a3b: designs without examples of earlier ones.

Command    python -m spade_jax.main --config=configs/ablations/no_memory.py --workdir=runs/no_memory
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet at its size: `--mode=explain` counts what a step costs
Expect     designs that repeat themselves and drift out of band
"""

from configs import games_qwen3_30b_a3b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_30b_a3b.get_config()
    c.memory.enabled = False
    return sizes.fit(c, size)
