"""Ablation of games_qwen3_30b_a3b: designs without documents.

Command    python -m spade_jax.main --config=configs/ablations/no_corpus.py --workdir=runs/no_corpus
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet at its size: `--mode=explain` counts what a step costs
Expect     designs of less variety: published, grounding is one of two parts that make it work
"""

from configs import games_qwen3_30b_a3b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_30b_a3b.get_config()
    c.grounding.enabled = False
    return sizes.fit(c, size)
