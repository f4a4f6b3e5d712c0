import pytest

from spade_jax.text import well_formed

CALL = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'


@pytest.mark.parametrize(
    ("reply", "formed"),
    [
        (r"so \boxed{left}", True),
        (r"<think>\boxed{left}</think>left", False),
        (r"<think>left or right?</think>\boxed{left}", True),
        (r"<think>\boxed{left}", False),
        (r"\boxed{left", False),
        ("left", False),
        (CALL, False),
    ],
)
def test_a_game_s_action_is_a_closed_box(reply, formed):
    assert well_formed(reply) is formed


@pytest.mark.parametrize(
    ("reply", "formed"),
    [
        (f"first {CALL} then {CALL}", True),
        ("<answer>7</answer>", True),
        (f"{CALL} <answer>7</answer>", True),
        ("<answer>7", False),
        ("</answer> <answer>", False),
        (f"{CALL} <tool_call>look()</tool_call>", False),
        ("<tool_call>look()</tool_call> <answer>7</answer>", False),
        (f"<think>{CALL}</think>done", False),
        (r"\boxed{7}", False),
        ("", False),
    ],
)
def test_tool_use_is_calls_without_a_malformed_one_or_an_answer(reply, formed):
    assert well_formed(reply, tool_use=True) is formed
