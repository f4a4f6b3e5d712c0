"""What the designer reads, in every style."""

import functools
import itertools

import pytest

import sandbox_runner.tool_use as tool_use
from configs import base
from configs.tool_use_qwen3_4b import SKILLS as TOOL_USE
from spade_jax.designer import Difficulty, Negative, Record, Selection, designer_prompt
from spade_jax.prompts import PromptError, Prompts, styles

GAMES = tuple(base.get_config().curriculum.skills)
DOCUMENT = "Tides follow the moon."
GOOD = Record("class LockEnv:\n    N = 4\n", "s", 0.52, 0.3, 0)
BAD = Record("class DullEnv:\n    N = 9\n", "s", 1.0, 0.0, 0)
SHOWN = Selection((GOOD,), (Negative(BAD, True), Negative(GOOD, False)))


style_of = functools.cache(Prompts)


def prompt(style, skill=GAMES[0], document=None, examples=None, **more):
    return designer_prompt(style_of(style), skill, document, examples, 2000, **more)


@pytest.mark.parametrize("style", styles())
@pytest.mark.parametrize("domain,skills", [("games", GAMES), ("tool_use", TOOL_USE)])
def test_every_combination_says_what_it_was_given_and_nothing_else(style, domain, skills):
    for skill, document, examples, aim, inline_hint in itertools.product(
        skills, (None, DOCUMENT), (None, SHOWN), (None, "harder", "easier", "same"), (True, False)
    ):
        difficulty = aim and Difficulty(0.349, aim)
        text = prompt(style, skill, document, examples, domain=domain, inline_hint=inline_hint,
                      difficulty=difficulty)  # fmt: skip
        assert skill in text
        assert (DOCUMENT in text) == (document is not None)
        assert ("class LockEnv:" in text) == ("DullEnv N = 9" in text) == (examples is not None)
        assert ("0.3" in text) == (aim is not None)
        assert (aim in ("harder", "easier")) == any(w in text for w in ("harder", "easier"))
        if style != "compact":
            assert ("Hint:" in text) == inline_hint
            assert ("ToolUseEnv" in text) == (domain == "tool_use")
            assert (r"\boxed{" in text) == (domain == "games")
        assert "\n\n\n" not in text and not text.endswith("\n") and "{%" not in text


def test_the_compact_style_is_what_the_small_model_learned_to_read():
    assert prompt("compact", "optimization", DOCUMENT, Selection((GOOD,), (Negative(BAD, True),))) \
        == (
            "Skill: optimization\nDocument: Tides follow the moon.\nAvoid, too easy: DullEnv N = 9"
            "\nExample, win rate 0.5:\nclass LockEnv:\n    N = 4"
        )  # fmt: skip
    assert prompt("compact", domain="tool_use") == prompt("compact")


def test_the_full_style_describes_every_published_skill_and_lives_with_others():
    for skill in (*GAMES, *TOOL_USE):
        assert f"{skill}: " in prompt("full", skill)
    assert "\n\njuggling\n\n" in prompt("full", "juggling")


def test_the_full_style_names_the_turn_budget():
    assert "At most 17 turns" in prompt("full", max_turns=17)


@pytest.mark.parametrize("style", ["chat", "full"])
def test_the_tool_use_prompts_speak_of_the_base_class_as_it_is(style):
    text = prompt(style, domain="tool_use")
    made = tool_use.ToolUseEnv()
    for name in ("begin", "_state", "_tools", "_expected_answer"):
        assert f"self.{name}" in text and hasattr(made, name)
    if style == "full":
        for name in ("_user_messages", "_message_criteria"):
            assert f"self.{name}" in text and hasattr(tool_use.MultiTurnToolUseEnv, name)
        assert "MultiTurnToolUseEnv" in text


@pytest.mark.parametrize("style", styles())
def test_a_repair_prompt_names_the_stage_and_the_reason(style):
    text = Prompts(style).render("repair", stage="leak", reason="it tells", inline_hint=True)
    assert "leak" in text and "it tells" in text


def test_a_style_takes_from_the_common_one_what_it_lacks():
    values = {"observation": "A door.", "hint": None}
    assert Prompts("full").render("observation", **values) == Prompts("chat").render(
        "observation", **values
    )
    with pytest.raises(PromptError, match="'none'"):
        Prompts("full").render("none")
