"""Guards on designs, against real programs in real sandbox processes."""

import numpy as np
import pytest

from sandbox_runner import BlockingPool, Limits
from spade_jax.designer import (
    GUARDS,
    Environment,
    GuardSettings,
    SkillMatcher,
    check_skills,
    guards,
    reject_degenerate,
    validate,
    verbatim_keys,
)
from spade_jax.designer.guards import (
    common_endings,
    constant_guesses,
    likely_guesses,
    permanent_credit,
    replays,
)
from spade_jax.envs.library import GAMES
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
    return GAMES.families[family].sample(np.random.default_rng(seed), knob)


def environment(source, skill="spatial reasoning", name="e"):
    return Environment(name, skill, None, source, 0, Trajectory(), source=source, hint="h")


def ended(reward, *replies, outcome="terminated"):
    episode = Episode(Task(None, 0, 0, PlaySettings(1.0, 5, 8)))
    episode.transcript = [Message("assistant", reply) for reply in replies]
    episode.outcome, episode.reward = outcome, reward
    return episode


def won(*replies):
    return ended(1.0, *replies)


def judged(pool, source, plays, *names, seeds=(1, 2, 3, 4), turns=5):
    made = environment(source)
    settings = GuardSettings(names or ("replay",))
    reject_degenerate(Hosts(), pool, [made], [plays], seeds, turns, settings)
    return made


def test_a_win_that_replays_on_other_seeds_is_degenerate(pool):
    bad = judged(pool, CONSTANT, [won(r"\boxed{open}")])
    assert bad.stage == "degenerate"
    assert bad.reason == "one fixed action sequence wins on 100% of other seeds"


def test_a_win_by_tools_is_replayed_in_its_own_words(pool):
    call = '<think>Now.</think>\n<tool_call>{"name": "open", "arguments": {}}</tool_call>'
    (tools, game), plays = (environment(LOCKED), environment(LOCKED)), []
    for shown in (({"type": "function", "function": {"name": "open"}},), ()):
        play = won(call, r"<answer>\boxed{2}</answer>")
        play.tools = shown
        plays.append([play])
    reject_degenerate(Hosts(), pool, [tools, game], plays, [1, 2, 3, 4], 5, GuardSettings())
    assert tools.stage == "degenerate"
    assert game.accepted  # in a game the box alone is said, which opens nothing here


def test_a_real_game_is_not_degenerate_however_it_was_won(pool):
    seed_env = sample("press")
    (session,) = pool.open([seed_env.source])
    pool.reset([(session, 11)])
    (solution,) = pool.solution([session])
    pool.close([session])
    actions = [rf"\boxed{{{line}}}" for line in solution.splitlines()]
    other = won(r"\boxed{0}", *actions)
    game = judged(pool, seed_env.source, [won(*actions), other], *GUARDS, turns=12)
    assert game.accepted, game.reason


def test_without_a_win_there_is_nothing_to_replay(pool):
    assert judged(pool, CONSTANT, [], *GUARDS).accepted


def test_a_guard_that_is_off_rejects_nothing(pool):
    quiet = environment(CONSTANT)
    reject_degenerate(Hosts(), pool, [quiet], [[won(r"\boxed{open}")]], [1], 5, GuardSettings(()))
    assert quiet.accepted


def test_what_does_not_load_or_goes_on_has_no_ending(pool):
    programs = [("class A(", False), (CONSTANT, True)]
    found = replays(pool, programs, [[["x"]], [["x"], ["x", "open"]]], [1, 2], 3)
    assert found == [[[None, None]], [[None, None], [1.0, 1.0]]]


def test_replays_that_need_many_processes_go_in_waves(monkeypatch):
    monkeypatch.setattr(guards, "WAVE", 4)
    with BlockingPool(Limits(max_children=4)) as small:
        (found,) = replays(small, [(CONSTANT, False)], [[["open"], ["x"]]], range(5), 3)
    assert found == [[1.0] * 5, [None] * 5]


THREE_DOORS = """
class DoorsEnv:
    def __init__(self, max_turns=1, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        self.right = "abc"[seed % 3]
        return f"It is {self.right!r}.", {}
    def step(self, action):
        won = action == f"\\\\boxed{{{self.right}}}"
        return "", float(won), True, False, {}
"""


def test_a_few_guesses_that_together_win_half_are_degenerate_though_one_does_not(pool):
    plays = [won(r"\boxed{a}"), won(r"\boxed{a}"), won(r"\boxed{b}")]
    seeds = range(30, 36)  # each letter is right on a third of them
    assert judged(pool, THREE_DOORS, plays, "replay", seeds=seeds).accepted
    bad = judged(pool, THREE_DOORS, plays, "replay", "guesses", seeds=seeds)
    assert bad.reason == "2 fixed action sequences together win on 67% of other seeds"


def test_what_lost_on_the_only_seed_is_a_guess_too(pool):
    plays = [won(r"\boxed{a}"), ended(0.0, r"\boxed{c}"), ended(0.0, r"\boxed{z}")]
    bad = judged(pool, THREE_DOORS, plays, "guesses", seeds=range(30, 36))
    assert bad.reason == "3 fixed action sequences together win on 67% of other seeds"


def test_guesses_are_scripts_that_won_most_often_then_those_that_lost():
    plays = [won("z"), won("b"), won("b", "c"), won("c"), won("b"), won("c"), ended(0.0, "x"),
             ended(0.0, "x"), ended(0.0, "b"), ended(1.0, "y", outcome="truncated")]  # fmt: skip
    assert likely_guesses(plays, GuardSettings(guesses=3)) == [("b",), ("c",), ("z",)]
    assert likely_guesses(plays, GuardSettings(guesses=9))[3:] == [("b", "c"), ("x",)]
    assert common_endings(plays, GuardSettings(guesses=2)) == [("b",), ("c",)]


def test_guesses_win_together_where_any_of_them_does():
    one, two = [1.0, 0.0, None, None], [1.0, 0.5, 0.0, None]
    assert "2 fixed action sequences together win on 50%" in constant_guesses([], [(), ()],
                                                                              [one, two])
    assert constant_guesses([], [(), ()], [one, [1.0, -1.0, 0.0, None]]) is None


@pytest.mark.parametrize(
    "rewards,replayed,why",
    [
        ([0.5, 0.5], [0.5, 0.5], "each of 4 ends pays 0.5"),
        ([0.5, 0.5], [0.5, None], "each of 3 ends pays 0.5"),  # not ended: no other pay
        ([0.3, 1.0], [0.6, 0.3], "none of 4 plays loses: they pay from 0.3 to 1"),
        ([0.3, 1.0], [0.6, None], None),  # an open end is a loss
        ([0.5, 0.5], [0.0, 0.5], None),  # a replay loses
        ([0.5, 0.0], [0.5, 0.5], None),  # a play loses
        ([1.0, 1.0], [1.0, 1.0], None),  # a full win is no partial credit: "replay" looks at it
        ([0.0, 0.0], [0.0, 0.0], None),
    ],
)
def test_rewards_must_tell_wins_from_losses(rewards, replayed, why):
    plays = [ended(reward, str(k)) for k, reward in enumerate(rewards)]
    assert permanent_credit(plays, [("0",), ("1",)], [replayed[:1], replayed[1:]]) == why


def test_a_truncated_play_is_a_loss_and_a_single_script_proves_nothing():
    plays = [ended(0.3, "a"), ended(0.8, "b"), ended(0.0, "c", outcome="truncated")]
    assert permanent_credit(plays, [("a",), ("b",)], [[0.3], [0.8]]) is None
    assert permanent_credit(plays[:1], [("a",)], [[0.3]]) is None


def test_partial_credit_for_any_answer_is_degenerate(pool):
    source = THREE_DOORS.replace("float(won)", "1.0 if won else 0.4")
    plays = [ended(0.4, r"\boxed{z}"), ended(0.4, r"\boxed{y}")]
    bad = judged(pool, source, plays, "partial_credit")
    assert bad.reason == "each of 10 ends pays 0.4"
    plays.append(won(r"\boxed{a}"))
    assert "none of 15 plays loses" in judged(pool, source, plays, "partial_credit").reason


@pytest.mark.parametrize("family", sorted(GAMES.families))
def test_every_seed_family_passes_validation_and_its_skill_is_recognised(pool, family):
    seeds = [(name, f) for name, f in GAMES.families.items()]
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
