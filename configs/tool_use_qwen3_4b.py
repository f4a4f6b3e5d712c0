"""SPADE's tool-use recipe on Qwen3-4B-Instruct-2507, with the published settings.

Command    python -m spade_jax.main --config=configs/tool_use_qwen3_4b.py --workdir=runs/tools_4b
           on every host of the slice, with the model as in configs/games_qwen3_4b.py; at a laptop's
           size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_4b.py, which also says what to change for more chips
Time       not run yet: `--mode=explain` counts what a step costs
Differs    as configs/games_qwen3_4b.py. Who audits: the model itself, which costs no server; an
           external one with --config.audit.source=external and `remote.*` (docs/advice.md).
           Regret compares both arms at the weights of the step that wrote the environment; the
           published mean is over all 32 steps: --config.designer.matched_timing=False.
           Three active skills per regeneration, as in games: published is only that they rotate.
"""

from ml_collections import ConfigDict

from configs import games_qwen3_4b, sizes

SKILLS = (
    "API orchestration",
    "data retrieval",
    "state modification",
    "error recovery",
    "tool selection",
    "multi-step workflows",
)


def get_config(size: str = sizes.PUBLISHED):
    c = with_tools(games_qwen3_4b.get_config(), interval=32, hint_tokens=512)
    c.steps = 500
    c.curriculum.num_envs = 16
    c.designer.reward = "regret"
    c.agent.hint_plays_per_env = 4
    c.learner.drop_zero_variance = True
    return sizes.fit(c, size)


def with_tools(c: ConfigDict, interval: int, hint_tokens: int) -> ConfigDict:
    """What tool use changes in a recipe of games, whatever its model."""
    c.grounding.max_words = 4000
    c.curriculum.domain = "tool_use"
    c.curriculum.skills = SKILLS
    c.curriculum.regen_interval = c.designer.delay = interval
    c.hints.max_new_tokens = hint_tokens
    c.audit.enabled = True
    c.audit.source = "self"
    c.learner.kl = 0.005
    c.learner.mask_truncated = True
    return c
