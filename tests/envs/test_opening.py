"""Where the hint enters an agent's first messages."""

import pytest

from spade_jax.envs import HINT_STYLES, opening
from spade_jax.prompts import Prompts, styles
from spade_jax.text import Message

SEEN, HINT = "A locked door.", "The key is under the mat."


@pytest.mark.parametrize("tool_use", [False, True])
@pytest.mark.parametrize("prompts", styles())
def test_the_hint_is_told_once_where_its_style_says(prompts, tool_use):
    prompts = Prompts(prompts)
    for style in HINT_STYLES:
        messages = opening(prompts, SEEN, HINT, style, tool_use)
        text = "\n".join(message.content for message in messages)
        assert text.count(HINT) == text.count(SEEN) == 1
        assert (text.index(HINT) > text.index(SEEN)) == (style == "append")
        roles = [message.role for message in messages]
        assert roles == (["system", "user"] if style == "system" else ["user"])


@pytest.mark.parametrize("hint", [None, ""])
@pytest.mark.parametrize("prompts", styles())
def test_without_a_hint_all_styles_are_one(prompts, hint):
    prompts = Prompts(prompts)
    (first,) = {opening(prompts, SEEN, hint, style) for style in HINT_STYLES}
    assert first == (Message("user", prompts.render("observation", observation=SEEN, hint=None)),)


def test_a_game_is_played_in_boxes_and_tools_are_called():
    game, tools = (
        opening(Prompts("chat"), SEEN, HINT, tool_use=tool_use)[0].content
        for tool_use in (False, True)
    )
    told = f"{SEEN}\nHint: {HINT}\n"
    assert game == told + r"Answer with your next action as \boxed{action}."
    assert tools.startswith(told) and "boxed" not in tools and "<answer>" in tools
