r"""Ablation of games_qwen3_30b_a3b: the designer is paid for a solve rate near one half.

Command    python -m spade_jax.main --config=configs/ablations/solve_rate.py \
               --workdir=runs/solve_rate
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet at its size: `--mode=explain` counts what a step costs
Expect     environments in band, whose difficulty need not be learnable
"""

from configs import games_qwen3_30b_a3b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_30b_a3b.get_config()
    c.designer.reward = "plateau"
    return sizes.fit(c, size)
