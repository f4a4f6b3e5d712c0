"""python -m tests.recipes_worker FOLDER RECIPE...: one iteration of each, at tiny size.

All in one process, so that programs are compiled once. The Designer's replies are the seed
library's and the Agent guesses: what is tried here is the recipe, not the model. What was found
goes to FOLDER/found.jsonl.
"""

import json
import pathlib
import runpy
import sys

import numpy as np

from spade_jax import train
from spade_jax.cycle import open_source
from spade_jax.designer import Memory, Record
from spade_jax.envs.library import DOMAINS
from spade_jax.modes import Options, run_warm_start
from spade_jax.modes.opening import first_state, open_rooms
from spade_jax.parallel import Hosts
from spade_jax.progress import Progress
from tests.rollout.scripted import ScriptedEngine

SMALL = {
    "steps": 1, "warm_start.designs": 150, "warm_start.episodes": 300, "warm_start.steps": 20,
    "text.vocab_size": 800,
}  # fmt: skip


class Spoken(ScriptedEngine):
    """A role's engine, but for what it says."""

    def __init__(self, engine, chat, say):
        """`say`: from a prompt and a generator to the reply."""
        super().__init__(self._reply, version=0)
        self._engine, self._chat, self._text = engine, chat, say
        self._generators = {}

    def __getattr__(self, name):
        return getattr(self._engine, name)

    @property
    def asked(self):
        return [self._chat.decode(request.tokens) for request in self.requests]

    def _reply(self, handle):
        rng = self._generators.setdefault(handle, np.random.default_rng(handle.request.seed))
        return self._chat.reply(self._text(self._chat.decode(handle.request.tokens), rng)), "stop"


def designer_of(domain, prompts):
    def say(prompt, rng):
        if "Skill: " not in prompt:
            return "Verdict: solvable"
        made = next(f for f in domain.families.values() if f"Skill: {f.skill}" in prompt)
        made = made.sample(rng, 4)
        return prompts.render("design", source=made.source, hint=made.hint)

    return say


def guess(prompt, rng):
    """An agent that wins now and then."""
    number = rng.integers(1, 6)
    return rf"\boxed{{{number}}}" + (f" <answer>{number}</answer>" if "(" in prompt else "")


def remembered(skill):
    return Record("class OldEnv:\n    N = 9\n", skill, win_rate=0.5, regret=0.5, step=0)


def load(recipe, folder):
    config = runpy.run_path(recipe)["get_config"]("tiny")
    config.update_from_flattened_dict(SMALL)
    config.compilation_cache = str(folder / "cache")
    return config


def run(recipe, folder):
    config = load(recipe, folder)
    warm = folder / config.curriculum.domain
    if not warm.exists():
        run_warm_start(load(recipe, folder), warm, Options())
    config.warm_start.path = str(warm)
    workdir = folder / pathlib.Path(recipe).stem
    with open_rooms(config, workdir, Hosts()) as rooms, Progress(1) as progress:
        chat, domain = rooms.language.chats["designer"], DOMAINS[config.curriculum.domain]
        speaker = Spoken(rooms.engines["designer"], chat, designer_of(domain, rooms.prompts))
        rooms.engines["designer"] = speaker
        agent = rooms.language.chats["agent"]
        rooms.player._engine = Spoken(rooms.engines["agent"], agent, guess)
        records = open_source(config).begin(rooms)
        past = [remembered(skill) for skill in config.curriculum.skills]
        records.memory = Memory(rooms.memory_settings, past).to_json()
        state = first_state(rooms, rooms.language.params(), records)
        state, metrics, designs = train.iteration(rooms, state, progress)
    return {
        "recipe": recipe,
        "metrics": metrics,
        "asked": speaker.asked,
        "designs": [
            {"skill": d.skill, "stage": d.stage, "reward": d.reward, "audit": d.audit,
             "hint_returns": d.hint_returns, "windows": d.windows}
            for d in designs
        ],
    }  # fmt: skip


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:]:
        found = run(name, root)
        with (root / "found.jsonl").open("a") as file:
            file.write(json.dumps(found, default=float) + "\n")
