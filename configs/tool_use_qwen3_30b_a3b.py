r"""SPADE's tool-use recipe on Qwen3-30B-A3B-Instruct-2507, with the published settings.

Command    python -m spade_jax.main --config=configs/tool_use_qwen3_30b_a3b.py \
               --workdir=runs/tools_30b
           on every host of the slice, with the model as in configs/games_qwen3_30b_a3b.py; at a
           laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet: docs/pods.md estimates a step
Differs    as configs/tool_use_qwen3_4b.py
"""

from configs import games_qwen3_30b_a3b, sizes
from configs.tool_use_qwen3_4b import SKILLS


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_30b_a3b.get_config()
    c.grounding.max_words = 4000
    c.curriculum.domain = "tool_use"
    c.curriculum.skills = SKILLS
    c.curriculum.regen_interval = c.designer.delay = 8
    c.hints.max_new_tokens = 2048
    c.audit.enabled = True
    c.audit.source = "self"
    c.learner.kl = 0.005
    c.learner.mask_truncated = True
    return sizes.fit(c, size)
