r"""SPADE's games recipe on Qwen3-4B-Instruct-2507, with the published settings.

Command    python -m spade_jax.main --config=configs/games_qwen3_4b.py --workdir=runs/games_4b
           on every host of the slice. First, once, bring the model to `model.checkpoint`:
           hf download Qwen/Qwen3-4B-Instruct-2507 \
               --local-dir models/Qwen3-4B-Instruct-2507
Hardware   64 chips of TPU v5e: docs/pods.md has the meshes, and what was compiled for them.
           python -m spade_jax.aot --config=configs/games_qwen3_4b.py --topology=v5e:8x8
           On more chips `mesh.fsdp` grows, and with it must `learner.ROLE.rows`, of both roles, to
           a multiple of mesh.data * mesh.fsdp * mesh.expert, and `warm_start.tokens` to as many
           rows of `learner.ROLE.length`.
Time       not run yet: docs/pods.md estimates a step
Differs    The corpus: documentation of the installed Python packages (`machine`, 1,694 documents),
           where the published run draws from a large one. Another one, as lines of JSON:
           --config.grounding.sources="('jsonl:PATH',)"
           16 plays per environment and arm, where the published run has 8 without the hint: there
           192 / 24 follows from its batch of 192 trajectories, here the batch follows from this.
           The guards, all of which are ours: they replay what won on 16 other seeds.
"""

from configs import base, sizes


def get_config(size: str = sizes.PUBLISHED):
    c = base.get_config()
    c.prompts = "full"
    c.model.preset = "qwen3_4b_2507"
    c.model.checkpoint = "models/Qwen3-4B-Instruct-2507"
    c.text.chat = "qwen3"
    c.distributed.enabled = True
    c.mesh.data, c.mesh.fsdp, c.mesh.tensor = 1, -1, 2
    c.replica.tensor = 4

    c.warm_start.steps = 0  # the public model follows the prompts as it is
    c.warm_start.designs = c.warm_start.episodes = 1
    c.grounding.sources = ("machine",)
    c.hints.source = "self"
    c.designer.guards = ("replay", "guesses", "partial_credit")
    c.designer.replay_seeds = 16
    c.designer.top_k = c.agent.top_k = 20
    c.designer.top_p = c.agent.top_p = 0.95
    c.sandbox.call_cpu = 30.0

    for role, slots in (("designer", 8), ("agent", 64)):
        c.sampler[role].num_slots = slots
        c.sampler[role].cache_gib = 16.0
        c.sampler[role].past_tokens = 65_536
        c.learner[role].rows = 32
    c.warm_start.tokens = 32 * 32_767
    return sizes.fit(c, size)
