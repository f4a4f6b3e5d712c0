"""SPADE from scratch on a laptop: a 0.5 M parameter model designs and plays its own environments.

Command    make demo
           python -m spade_jax.main --config=configs/tiny.py --workdir=runs/tiny
Hardware   two CPU cores, 4 GB of memory
Time       9 to 10 minutes: warm start 6, 30 iterations of 3 to 4 seconds, two evaluations
Expect     about 97% of designs valid, two thirds of those not verbatim; the regret stays between
           0.20 and 0.27 while worlds get harder and half of them stay in band; held-out stays near
           0.10, within its error
"""

from configs import base


def get_config():
    c = base.get_config()
    c.steps = 30
    c.warm_start.tokens = 2048
    c.warm_start.designer_every = 4

    c.memory.positives = 1
    c.memory.negatives = 1
    c.memory.use = 0.5
    c.memory.snippet = 1600
    c.memory.recent = 20
    c.memory.top = 6
    c.grounding.max_words = 24

    c.curriculum.skills_per_regen = 6
    c.curriculum.max_attempts = 3
    c.curriculum.regen_interval = 1

    c.designer.delay = 1
    c.designer.temperature = 1.0
    c.designer.max_new_tokens = 96
    c.designer.weight = 4.0
    c.designer.role_scale = False
    c.designer.baseline = "moving"
    c.designer.negative_scale = 0.35
    c.designer.train_invalid = True
    c.designer.check_skill = True
    c.designer.repeat_cost = 0.3
    c.designer.s_reg = 0.3
    c.designer.self_judge_tokens = 16
    c.hints.max_new_tokens = 48
    c.audit.max_new_tokens = 16

    c.agent.plays_per_env = 6
    c.agent.hint_plays_per_env = 6
    c.agent.seeds_per_env = 2
    c.agent.train_hint_arm = True
    c.agent.temperature = 1.0
    c.agent.max_new_tokens = 8
    c.agent.max_turns = 12

    for role in ("designer", "agent"):
        c.sampler[role].prefill_tokens = 256
        c.sampler[role].prefill_chunks = (16, 64)
        c.sampler[role].decode_rows = 16
        c.sampler[role].page = 64
        c.sampler[role].cache_gib = 0.0
        c.sampler[role].past_tokens = 0
    c.sampler.warm_up = False  # a program takes a second, when it is first needed
    c.sampler.designer.num_slots = 24
    c.sampler.designer.max_len = 256
    c.sampler.agent.num_slots = 96
    c.sampler.agent.max_len = 160
    c.learner.designer.rows = 8
    c.learner.designer.length = 255
    c.learner.agent.rows = 16
    c.learner.agent.length = 159
    c.learner.normalise = "role"
    c.learner.kl = 0.02
    c.learner.learning_rate = 3e-4
    c.learner.weight_decay = 0.0

    c.eval.episodes = 4
    c.checkpoint.every = 5
    return c
