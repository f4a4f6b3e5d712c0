"""Guards on designs, against real programs in real sandbox processes."""

import numpy as np
import pytest

from sandbox_runner import BlockingPool
from spade_jax.designer import (
    Environment,
    Record,
    SkillMatcher,
    check_skills,
    validate,
    verbatim_keys,
)
from spade_jax.designer.guards import reject_degenerate, repeat_share, replay_wins
from spade_jax.envs.library import FAMILIES
from spade_jax.parallel import Hosts
from spade_jax.rollout import Episode, PlaySettings, Task, Trajectory
from spade_jax.text import Message

CONSTANT = '''
class ConstantEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        self.turn, self.shown = 0, random.Random(seed).randint(1, 99)
        return f"you see {self.shown}", {}
    def step(self, action):
        self.turn += 1
        won = "open" in action
        return "door", float(won), won, self.turn >= self.max_turns, {}
'''

LOCKED = '''
class LockedEnv:
    def get_tools(self):
        return [{"type": "function", "function": {"name": "open"}}]
    def reset(self, seed=None):
        self.open = False
        return f"door {seed}"
    def step(self, action):
        self.open = self.open or action.startswith("<tool_call>")
        over = action.startswith("<answer>")
        return "seen", float(over and self.open), over, False, {}
'''


@pytest.fixture(scope="module")
def pool():
    with BlockingPool() as pool:
        yield pool


def sample(family, knob=4, seed=0):
    return FAMILIES[family].sample(np.random.default_rng(seed), knob)


def environment(source, skill="spatial reasoning", name="e"):
    return Environment(name, skill, None, source, 0, Trajectory(), source=source, hint="h")


def won(*replies):
    episode = Episode(Task(None, 0, 0, PlaySettings(1.0, 5, 8)))
    episode.transcript = [Message("assistant", reply) for reply in replies]
    episode.outcome, episode.reward = "terminated", 1.0
    return episode


def test_a_win_that_replays_on_other_seeds_is_degenerate(pool):
    bad = environment(CONSTANT)
    reject_degenerate(Hosts(), pool, [bad], [[won(r"\boxed{open}")]], [1, 2, 3, 4], 5)
    assert bad.stage == "degenerate" and "100%" in bad.reason


def test_a_win_by_tools_is_replayed_in_its_own_words(pool):
    call = '<think>Now.</think>\n<tool_call>{"name": "open", "arguments": {}}</tool_call>'
    (tools, game), plays = (environment(LOCKED), environment(LOCKED)), []
    for shown in (({"type": "function", "function": {"name": "open"}},), ()):
        play = won(call, r"<answer>\boxed{2}</answer>")
        play.tools = shown
        plays.append([play])
    reject_degenerate(Hosts(), pool, [tools, game], plays, [1, 2, 3, 4], 5)
    assert tools.stage == "degenerate"
    assert game.accepted  # in a game the box alone is said, which opens nothing here


def test_a_real_game_is_not_degenerate_however_it_was_won(pool):
    seed_env = sample("press")
    game = environment(seed_env.source)
    (session,) = pool.open([seed_env.source])
    pool.reset([(session, 11)])
    (solution,) = pool.solution([session])
    pool.close([session])
    episode = won(*(rf"\boxed{{{line}}}" for line in solution.splitlines()))
    reject_degenerate(Hosts(), pool, [game], [[episode]], [1, 2, 3, 4], 12)
    assert game.accepted


def test_without_a_win_there_is_nothing_to_replay(pool):
    quiet = environment(CONSTANT)
    reject_degenerate(Hosts(), pool, [quiet], [[]], [1, 2], 5)
    assert quiet.accepted


def test_replays_of_a_program_that_does_not_load_win_nothing(pool):
    assert replay_wins(pool, [("class A(", False)], [["x"]], [1, 2], 3) == [0.0]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_seed_family_passes_validation_and_its_skill_is_recognised(pool, family):
    seeds = [(name, f) for name, f in FAMILIES.items()]
    matcher = SkillMatcher([
        (f.skill, name, f.sample(np.random.default_rng(k), 4 + k).source)
        for name, f in seeds
        for k in range(3)
    ], 0.25)  # fmt: skip
    made = sample(family, knob=9, seed=5)
    right = environment(made.source, made.skill)
    wrong = environment(made.source, "another skill")
    validate(pool, [right], 12)
    check_skills(matcher, [right, wrong], True, frozenset())
    assert right.accepted, (right.stage, right.reason)
    assert right.knob == 9 and right.family == family and right.shareable
    assert wrong.stage == "off_skill" and made.skill in wrong.reason


def test_verbatim_copies_are_noted(pool):
    made = sample("search")
    keys = verbatim_keys([made.source])
    copy, other = environment(made.source), environment(made.source.replace("N = 4", "N = 5"))
    matcher = SkillMatcher([(made.skill, "search", made.source)])
    check_skills(matcher, [copy, other], False, keys)
    assert copy.verbatim and not other.verbatim
    assert copy.accepted and other.accepted


def test_repetition_is_the_share_of_recent_records_with_the_same_family_and_knob():
    def record(knob, family="lift", skill="spatial reasoning"):
        return Record("class AEnv: pass", skill, 0.5, 0.1, 0, knob=knob, family=family)

    new = environment("class AEnv: pass")
    new.knob, new.family = 20, "lift"
    known = [record(20), record(22), record(23), record(20, "grid"), record(20, skill="other")]
    assert repeat_share(new, known, 20) == pytest.approx(2 / 4)
    assert repeat_share(new, known, 2) == 0.0
    assert repeat_share(new, [], 20) == 0.0
