"""SPADE from scratch on a laptop, with tools: the 0.5 M parameter model designs tasks of calls and
answers, and learns to call.

Command    python -m spade_jax.main --config=configs/tiny_tool_use.py --workdir=runs/tiny_tool_use
Hardware   two CPU cores, 4 GB of memory
"""

from configs import tiny
from spade_jax.envs.library import DOMAINS


def get_config():
    c = tiny.get_config()
    c.curriculum.domain = "tool_use"
    c.curriculum.skills = DOMAINS["tool_use"].skills
    c.grounding.sources = ("bundled:tool_use",)
    c.agent.max_new_tokens = 16
    c.eval.episodes = c.eval.greedy = 0  # there are no held-out tasks with tools
    return c
