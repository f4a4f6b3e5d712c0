r"""SPADE's games recipe on Qwen3-30B-A3B-Instruct-2507, with the published settings.

Command    python -m spade_jax.main --config=configs/games_qwen3_30b_a3b.py --workdir=runs/games_30b
           on every host of the slice. First, once, bring the model to `model.checkpoint`:
           hf download Qwen/Qwen3-30B-A3B-Instruct-2507 \
               --local-dir models/Qwen3-30B-A3B-Instruct-2507
Hardware   64 chips of TPU v5p: docs/pods.md has the meshes, and what was compiled for them.
           python -m spade_jax.aot --config=configs/games_qwen3_30b_a3b.py --topology=v5p:4x4x4
Time       not run yet: `--mode=explain` counts what a step costs
Differs    as configs/games_qwen3_4b.py, which also says what to change for more chips
"""

from configs import games_qwen3_4b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_4b.get_config()
    c.model.preset = "qwen3_30b_a3b_2507"
    c.model.checkpoint = "models/Qwen3-30B-A3B-Instruct-2507"
    c.mesh.tensor, c.mesh.expert = 1, 4
    for role in ("designer", "agent"):
        c.learner[role].rows = 64
    c.warm_start.tokens = 64 * 32_767
    return sizes.fit(c, size)
