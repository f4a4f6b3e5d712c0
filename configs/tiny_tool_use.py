"""SPADE from scratch on a laptop, with tools: the 0.5 M parameter model designs tasks of calls and
answers, and learns to call.

Command    python -m spade_jax.main --config=configs/tiny_tool_use.py --workdir=runs/tiny_tool_use
Hardware   two CPU cores, 4 GB of memory
Time       not measured on a quiet machine; its warm start has half the steps of configs/tiny.py
Expect     after 8 iterations: 98% of designs valid, two thirds of those not verbatim; the agent
           wins 0.3 of its plays without the hint and 0.6 with it
"""

from configs import tiny


def get_config():
    c = tiny.get_config()
    c.curriculum.domain = "tool_use"
    c.curriculum.skills = (
        "API orchestration",
        "data retrieval",
        "state modification",
        "error recovery",
        "tool selection",
        "multi-step workflows",
    )
    c.grounding.sources = ("bundled:tool_use",)
    c.warm_start.designs = 4000
    c.warm_start.episodes = 20_000
    c.warm_start.steps = 1200
    c.agent.max_new_tokens = 16
    c.eval.episodes = c.eval.greedy = 0  # there are no held-out tasks with tools
    return c
