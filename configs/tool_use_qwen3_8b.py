"""SPADE's tool-use recipe on Qwen3-8B, which thinks in both roles, with the published settings.

Command    python -m spade_jax.main --config=configs/tool_use_qwen3_8b.py --workdir=runs/tools_8b
           on every host of the slice, with the model as in configs/games_qwen3_8b.py; at a
           laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_8b.py
Time       not run yet: docs/pods.md estimates a step
Differs    as configs/tool_use_qwen3_4b.py
"""

from configs import games_qwen3_8b, sizes
from configs.tool_use_qwen3_4b import SKILLS


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_8b.get_config()
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
