r"""SPADE's tool-use recipe on Qwen3-30B-A3B-Instruct-2507, with the published settings.

Command    python -m spade_jax.main --config=configs/tool_use_qwen3_30b_a3b.py \
               --workdir=runs/tools_30b
           on every host of the slice, with the model as in configs/games_qwen3_30b_a3b.py; at a
           laptop's size with `:tiny` behind the file's name
Hardware   as configs/games_qwen3_30b_a3b.py
Time       not run yet: `--mode=explain` counts what a step costs
Differs    as configs/tool_use_qwen3_4b.py
"""

from configs import games_qwen3_30b_a3b, sizes
from configs.tool_use_qwen3_4b import with_tools


def get_config(size: str = sizes.PUBLISHED):
    c = with_tools(games_qwen3_30b_a3b.get_config(), interval=8, hint_tokens=2048)
    return sizes.fit(c, size)
