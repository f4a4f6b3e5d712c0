"""python -m benchmarks.waiting: how long the sampler waits for slow environments.

Episodes are played in sandbox processes as a run plays them, by a small model of random weights on
this machine's first device; a step of an environment sleeps. `share` is the part of the time from
opening the environments to the end of the last episode in which no job of the sampler was under way
and episodes waited for their environments, as a run logs it (`sampler/agent/waited_seconds`; its
`rate/waiting_for_environments` is the share of a whole step). `--json=FILE` keeps all numbers. A
minute or two on two cores.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.sampler_engine import SlotEngine
from benchmarks.sampler_workload import FIRST_WORD, LAST_WORDS, ModelShape
from benchmarks.tables import print_header, print_row
from sandbox_runner import BlockingPool
from spade_jax.envs import Player, PlayRequest, Program
from spade_jax.parallel import Hosts
from spade_jax.prompts import Prompts
from spade_jax.rollout import PlaySettings
from spade_jax.sampler import Engine

COLUMNS = "seconds", "waited", "share", "turns", "mean_tokens", "tok_s"
SLOW = """
import time

class SlowEnv:
    def __init__(self, max_turns=100, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        return "begin", {{}}

    def step(self, action):
        time.sleep({delay})
        return "go on", 0.0, False, False, {{}}
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """Attributes:
    delay: seconds of a step.
    tokens: mean length of a reply.
    slots: episodes that the engine holds at a time.
    plays: of each environment.
    shared: whether the plays of an environment share a process, in which they take turns.
    """

    delay: float
    tokens: int
    slots: int = 16
    environments: int = 16
    plays: int = 1
    shared: bool = False
    turns: int = 3

    @property
    def name(self) -> str:
        process = "one process" if self.shared else "own processes"
        return (
            f"{1e3 * self.delay:g} ms, {self.tokens} tokens, {self.slots} slots,"
            f" {self.environments} x {self.plays} plays in {process}"
        )


CASES = (
    Case(0.05, 200),
    Case(0.05, 200, environments=4, plays=4, shared=True),
    Case(0.05, 10),
    Case(0.0, 10),
    Case(0.05, 200, slots=1, environments=2),
)
MOST = 3  # times the mean length is the limit of a reply: one of twenty is cut there, the last one
WIDTH = 32  # tokens of a message
VOCAB = 1024  # a tenth of it fits into a request's stop ids


class IdsChat:
    """Messages are ids that say nothing: `width` of them, then a reply. A model of random weights
    ends it with the chance that gives it `tokens` on average."""

    truncate_suffix = ()

    def __init__(self, vocab: int, tokens: int, width: int = WIDTH):
        self.stop_ids = tuple(range(vocab - max(1, vocab // tokens), vocab))
        words = vocab - LAST_WORDS - FIRST_WORD
        self._message = [FIRST_WORD + 7 * i % words for i in range(width)]

    def open(self, messages, tools=()) -> list[int]:
        return self._message * len(messages)

    def resume(self, row, messages, tools=()) -> tuple[int, list[int]]:
        return len(row), list(self._message)

    def decode(self, tokens) -> str:
        return str(len(tokens))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    options = parser.parse_args(arguments)
    print_header(["case", *COLUMNS])
    rows, engines = {}, Engines(ModelShape(vocab=VOCAB))
    for case in CASES:
        rows[case.name] = row = measure(case, engines)
        print_row([case.name, *(row[key] for key in COLUMNS)])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


class Engines:
    """The latest engine, which serves several cases: its programs take long to compile."""

    def __init__(self, shape: ModelShape):
        self.shape, self._key, self._latest = shape, None, None

    def get(self, slots: int, least: int) -> Engine:
        """One of so many slots whose contexts hold at least so many tokens."""
        if self._key is None or self._key[0] != slots or self._key[1] < least:
            self._key, self._latest = (slots, least), SlotEngine(self.shape, least, slots).engine
        return self._latest


def measure(case: Case, engines: Engines) -> dict:
    shape, most = engines.shape, MOST * case.tokens
    engine = engines.get(case.slots, case.turns * (most + WIDTH))
    before = dataclasses.replace(engine.stats)
    programs = [
        Program(
            SLOW.format(delay=case.delay), case.shared,
            tuple(PlayRequest(0, case.plays * env + play) for play in range(case.plays)),
        )
        for env in range(case.environments)
    ]  # fmt: skip
    with BlockingPool() as pool:
        pool.layers()
        chat = IdsChat(shape.vocab, case.tokens)
        player = Player(engine, chat, pool, Prompts("chat"), Hosts())
        began = time.perf_counter()
        played = player.play(programs, PlaySettings(1.0, case.turns, most))
        seconds = time.perf_counter() - began
    episodes = [episode for episodes in played for episode in episodes]
    if faults := [episode.error for episode in episodes if episode.error]:
        raise RuntimeError(f"{len(faults)} environments failed, one with: {faults[0]}")
    turns = sum(len(episode.replies) for episode in episodes)
    waited = engine.stats.waited_seconds - before.waited_seconds
    sampled = engine.stats.sampled_tokens - before.sampled_tokens
    return {
        "seconds": seconds, "waited": waited, "share": waited / seconds, "turns": turns,
        "mean_tokens": sampled / turns, "tok_s": sampled / seconds,
    }  # fmt: skip


if __name__ == "__main__":
    main()
