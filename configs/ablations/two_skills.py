r"""Ablation of games_qwen3_30b_a3b: two skills in place of six.

Command    python -m spade_jax.main --config=configs/ablations/two_skills.py \
               --workdir=runs/two_skills
           on every host of the slice; at a laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet at its size: `--mode=explain` counts what a step costs
Expect     narrower environments, and narrower gains
"""

from configs import games_qwen3_30b_a3b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_30b_a3b.get_config()
    c.curriculum.skills = ("mathematical reasoning", "logical deduction")
    c.curriculum.skills_per_regen = 2
    return sizes.fit(c, size)
