"""SPADE from scratch on a laptop, with tools: the 0.5 M parameter model designs tasks of calls and
answers, and learns to call.

Command    python -m spade_jax.main --config=configs/tiny_tool_use.py --workdir=runs/tiny_tool_use
Hardware   two CPU cores, 4 GB of memory
Time       3 minutes for 30 iterations; the warm start has half the steps of configs/tiny.py
Expect     98% of designs valid, two thirds of those not verbatim; the agent's win rate grows from
           0.32 to 0.38 without the hint and from 0.61 to 0.76 with it; regret from 0.34 to 0.41
"""

from configs import tiny
from configs.tool_use_qwen3_4b import SKILLS


def get_config():
    c = tiny.get_config()
    c.curriculum.domain = "tool_use"
    c.curriculum.skills = SKILLS
    c.grounding.sources = ("bundled:tool_use",)
    c.warm_start.designs = 4000
    c.warm_start.episodes = 20_000
    c.warm_start.steps = 1200
    c.agent.max_new_tokens = 16
    c.eval.episodes = c.eval.greedy = 0  # there are no held-out tasks with tools
    return c
