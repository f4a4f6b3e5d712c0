r"""SPADE's games recipe on Qwen3-8B, which thinks in both roles, with the published settings.

Command    python -m spade_jax.main --config=configs/games_qwen3_8b.py --workdir=runs/games_8b
           on every host of the slice. First, once, bring the model to `model.checkpoint`:
           hf download Qwen/Qwen3-8B \
               --local-dir models/Qwen3-8B
Hardware   64 chips of TPU v5p: docs/pods.md has the meshes, and what was compiled for them.
           python -m spade_jax.aot --config=configs/games_qwen3_8b.py --topology=v5p:4x4x4
Time       not run yet: docs/pods.md estimates a step
Differs    as configs/games_qwen3_4b.py, which also says what to change for more chips
"""

from configs import games_qwen3_4b, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = games_qwen3_4b.get_config()
    c.model.preset = "qwen3_8b"
    c.model.checkpoint = "models/Qwen3-8B"
    c.text.chat = "qwen3_thinking"
    c.designer.max_new_tokens = 20_000
    c.learner.kl = 0.005
    return sizes.fit(c, size)
