r"""Baseline of games_qwen3_30b_a3b: the same update on environments that were written in advance.

Command    python -m spade_jax.main --config=configs/fixed_pool_qwen3_30b_a3b.py \
               --workdir=runs/fixed_pool --config.curriculum.folder=FOLDER
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name.
           FOLDER holds NAME.py and, with a hint, NAME.json: a run's `environments/` is one. Without
           it the pool is 32 small games of the seed library, which a 30B model plays with ease.
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet: `--mode=explain` counts what a step costs
Expect     environments that go stale: each is played again when the folder is exhausted
"""

from configs import games_qwen3_30b_a3b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_30b_a3b.get_config()
    c.curriculum.source = "folder"
    c.curriculum.folder = "configs/pools/games"
    return sizes.fit(c, size)
