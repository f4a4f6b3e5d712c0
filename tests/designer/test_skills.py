
import numpy as np
import pytest

from spade_jax.designer.skills import (
    Match,
    SkillMatcher,
    is_verbatim,
    shingles,
    similarity,
    tokens,
    tool_count,
    verbatim_keys,
)
from spade_jax.envs.library import GAMES

SHELL = '''
class {name}Env:
    N = {knob}
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        rng = random.Random(seed)
        {reset}
        return "{text}", {{}}
    def step(self, action):
        {step}
        return "{text}", 0.0, False, False, {{}}
'''
PARTS = {
    "search": ("self.secret = rng.randint(1, self.N)",
               "hint = 'low' if value < self.secret else 'high' if value > self.secret else 'hit'"),
    "lift": ("self.floor, self.goal = rng.sample(range(self.N), 2)",
             "self.floor = min(self.N - 1, max(0, self.floor + (1 if up else -1)))"),
    "rule": ("self.pairs = [(a, a + self.shift) for a in range(self.N)]",
             "right = int(found.group(1)) == self.pairs[self.turn][1]"),
}
SKILL = {"search": "logic", "lift": "spatial", "rule": "pattern"}


def source(family, name="Some", knob=5, text="Guess."):
    reset, step = PARTS[family]
    return SHELL.format(name=name, knob=knob, text=text, reset=reset, step=step)


@pytest.fixture(scope="module")
def matcher():
    return SkillMatcher([(SKILL[f], f, source(f, n)) for f in PARTS for n in ("Cave", "Port")])


def test_tokens_normalise_numbers_and_strings_and_drop_comments_and_layout():
    text = "x = 1_000 + 0xFF + .5e-3j  # 7\n  y = f'a{x}' + r\"b\\\"c\" + '''d\ne'''"
    assert tokens(text) == ["x", "=", "0", "+", "0", "+", "0", "y", "=", '""', "+", '""', "+", '""']


def test_tokens_keep_identifiers_and_long_operators():
    assert tokens("a **= b // c != été(*args) -> d") == [
        "a", "**=", "b", "//", "c", "!=", "été", "(", "*", "args", ")", "->", "d"]


def test_a_quote_inside_a_comment_opens_no_string():
    assert tokens("a  # don't\nb") == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["", "\x00 ' \"", "x = 'open", "'''open\nstill", "\\", "1.2.3.4", "{"]
)
def test_text_that_is_not_python_still_yields_tokens(text):
    assert all(tokens(text))
    assert isinstance(similarity(shingles(text), shingles("a b c d e")), float)


def test_tokens_of_a_cut_source_are_a_prefix_of_the_whole():
    whole = source("search")
    for end in range(0, len(whole), 7):
        cut = tokens(whole[:end], normalise=False)
        assert cut[:-1] == tokens(whole, normalise=False)[: max(0, len(cut) - 1)]


def test_similarity_is_minima_over_maxima():
    a, b = shingles("p q r s t"), shingles("p q r s u")  # runs: pqrs qrst / pqrs qrsu
    assert similarity(a, b) == similarity(b, a) == pytest.approx(1 / 3)
    twice = shingles("a a a a a a")  # one run, three times
    assert similarity(twice, shingles("a a a a a")) == pytest.approx(2 / 3)
    assert similarity(a, a) == 1.0
    assert similarity(a, shingles("v w x y z")) == 0.0


def test_numbers_wording_and_layout_do_not_make_another_program():
    changed = source("lift", knob=40, text="Choose a floor now.").replace("\n", "\n\n  # note 3\n")
    assert similarity(shingles(source("lift")), shingles(changed)) > 0.9


def test_other_mechanics_make_another_program():
    assert similarity(shingles(source("lift")), shingles(source("search"))) < 0.5


def test_verbatim_ignores_comments_and_spacing_but_no_number_or_wording():
    keys = verbatim_keys([source("lift"), source("rule")])
    assert is_verbatim(source("lift").replace("\n", "  # x\n"), keys)
    assert not is_verbatim(source("lift", knob=6), keys)
    assert not is_verbatim(source("lift", text="Guess!"), keys)
    assert not is_verbatim(source("search"), keys)


@pytest.mark.parametrize("family", PARTS)
def test_a_new_member_is_matched_to_its_family(matcher, family):
    match = matcher.match(source(family, "Harbour", knob=33, text="Where to?"))
    assert (match.skill, match.family) == (SKILL[family], family)
    assert match.similarity > 0.8


def test_an_exact_reference_has_similarity_one(matcher):
    assert matcher.match(source("rule", "Cave")) == Match("pattern", "rule", pytest.approx(1.0))


def test_a_shared_shell_with_unknown_mechanics_is_unknown(matcher):
    reset, step = ("self.tower = [list(reversed(rods)) for rods in stack(rng)]",
                   "disc = self.tower[source].pop() if self.tower[source] else None")
    other = SHELL.format(name="Tower", knob=3, text="Move.", reset=reset, step=step)
    match = SkillMatcher([(SKILL[f], f, source(f)) for f in PARTS], threshold=0.5).match(other)
    assert (match.skill, match.family) == (None, None)
    assert 0 < match.similarity < 0.5


def test_every_seed_family_is_told_from_the_others():
    rng = np.random.default_rng(0)
    matcher = SkillMatcher([
        (family.skill, name, family.sample(rng).source)
        for name, family in GAMES.families.items() for _ in range(8)
    ])
    for name, family in GAMES.families.items():
        for _ in range(5):
            match = matcher.match(family.sample(rng).source)
            assert (match.skill, match.family) == (family.skill, name)


@pytest.mark.parametrize("text", ["", "nothing of the kind here at all"])
def test_text_without_a_known_run_has_similarity_zero(matcher, text):
    assert matcher.match(text) == Match(None, None, 0.0)


def test_similarity_is_the_weighted_jaccard_index_by_hand():
    # Two families, runs of single-run sources: each run lies in one family, so weight log(3 / 1).
    matcher = SkillMatcher([("s", "one", "a b c d e"), ("t", "two", "v w x y z")], threshold=0.3)
    # abcd is shared, bcdf is unknown (weight log 3 too): 1 / 3.
    assert matcher.match("a b c d f") == Match("s", "one", pytest.approx(1 / 3))


def test_a_family_under_two_skills_is_refused():
    with pytest.raises(ValueError, match="'lift' is under"):
        SkillMatcher([("a", "lift", "x"), ("b", "lift", "y")])


def test_no_references_are_refused():
    with pytest.raises(ValueError, match="at least one reference"):
        SkillMatcher([])


def test_tools_are_counted_by_their_methods():
    source = """class AEnv(ToolUseEnv):
    def tool_look(self): ...
    def tool_take(self, item): ...
    def tool_look(self): ...
    def _tool_no(self): ...
    # def tool_none(self)
"""
    assert tool_count(source) == 2
    assert tool_count(GAMES.families["press"].sample(np.random.default_rng(0)).source) == 0
