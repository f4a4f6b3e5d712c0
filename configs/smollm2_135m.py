"""SmolLM2-135M-Instruct, a public model that runs on a laptop: it answers, plays and learns.

Command    python -m spade_jax.main --config=configs/smollm2_135m.py --workdir=runs/smollm2
           ... --mode=generate --prompt="What is the capital of France?"
           ... --mode=play --env=FILE   (a hint beside it in FILE.hint or FILE.json is played too)
Hardware   two CPU cores, 16 GB of memory
Time       download and conversion once, 2 minutes; warm start 11 to 17 minutes; an iteration 4 to
           7; an evaluation, before and after, 3 to 4. Half a minute until an answer's first word
Expect     a quarter to a third of the designs valid (none before the warm start), worlds that the
           agent hardly wins, and a hint gap of about .25 from few plays. Answers in good English
"""

from configs import tiny


def get_config():
    c = tiny.get_config()  # the method's settings; below are the model and the sizes
    c.steps = 3
    c.prompts = "chat"
    c.model.preset = "smollm2_135m"
    c.model.overrides.remat = "none"
    c.model.checkpoint = "smollm2_135m"
    c.text.chat = "chatml"

    c.warm_start.designs = 400
    c.warm_start.episodes = 1200
    c.warm_start.steps = 64
    c.warm_start.tokens = 1024
    c.warm_start.designer_every = 2
    c.warm_start.context_weight = 0.0
    c.warm_start.learning_rate = 3e-4
    c.warm_start.matrix_rate = 0.0
    c.warm_start.mixture.memory = 0.25
    c.memory.snippet = 300

    c.curriculum.skills_per_regen = 3
    c.curriculum.num_envs = 8
    c.curriculum.max_attempts = 1
    c.designer.temperature = 0.6
    c.designer.max_new_tokens = 640
    c.designer.weight = 2.0
    c.designer.check_skill = False  # it seldom hits the skill: then there would be nothing to play
    c.agent.plays_per_env = 4
    c.agent.hint_plays_per_env = 4
    c.agent.max_new_tokens = 24
    c.agent.max_turns = 6

    for role in ("designer", "agent"):
        c.sampler[role].prefill_tokens = 64
        c.sampler[role].decode_rows = 16
        c.sampler[role].page = 128
    c.sampler.warm_up = False  # 30 layers compile for long, and not every program is needed
    c.sampler.designer.num_slots = 8
    c.sampler.designer.max_len = 1024
    c.sampler.agent.num_slots = 32
    c.sampler.agent.max_len = 512
    c.learner.designer.rows = 1
    c.learner.designer.length = 1023
    c.learner.agent.rows = 2
    c.learner.agent.length = 511
    c.learner.learning_rate = 2e-5

    c.eval.episodes = 0
    c.eval.greedy = 1
    c.eval.max_turns = 6
    c.checkpoint.every = 1
    c.checkpoint.keep = 1
    return c
