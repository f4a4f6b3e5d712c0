r"""Ablation of games_qwen3_30b_a3b: environments written in advance in place of the designer.

Command    python -m spade_jax.main --config=configs/ablations/fixed_pool.py \
               --workdir=runs/fixed_pool_ablation --config.curriculum.folder=FOLDER
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet at its size: `--mode=explain` counts what a step costs
Expect     as configs/fixed_pool_qwen3_30b_a3b.py, which it is under the ablations' name
"""

from configs import fixed_pool_qwen3_30b_a3b

get_config = fixed_pool_qwen3_30b_a3b.get_config
