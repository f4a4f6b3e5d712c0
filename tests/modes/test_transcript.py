"""What --mode=play prints."""

from spade_jax.modes.transcript import readable
from spade_jax.rollout import Episode, PlaySettings, Task
from spade_jax.text import Message

LOOK = {"type": "function", "function": {"name": "look", "description": "Reads a sign."}}
WAIT = {"type": "function", "function": {"name": "wait"}}


def episode(*transcript, tools=()):
    return Episode(Task(None, 0, 0, PlaySettings(1.0, 5, 8)), transcript=transcript, tools=tools)


def test_a_game_is_printed_as_it_was_said():
    said = Message("user", "Where?"), Message("assistant", "<tool_call>\n\\boxed{left}")
    assert readable(episode(*said)) == "user: Where?\nassistant: <tool_call>\n\\boxed{left}"


def test_calls_look_like_calls_and_results_stand_below_them():
    call = '<tool_call>{"name": "look", "arguments": {"at": "Ö\\ud800", "n": 2}}</tool_call>'
    thought = '<think>\n<tool_call>{"name": "thought"}</tool_call>\n</think>\n\n'
    shown = readable(
        episode(
            Message("system", "Hint: look."),
            Message("user", "Where?"),
            Message("assistant", f"{thought}First:\n{call}<tool_call>{{}}</tool_call>"),
            Message("tool", "two\nlines"),
            Message("tool", "Error: no name"),
            Message("assistant", "<answer>left</answer>"),
            tools=(LOOK, WAIT),
        )
    )
    assert shown == (
        "tool look: Reads a sign.\n"
        "tool wait\n"
        "system: Hint: look.\n"
        "user: Where?\n"
        f"assistant: {thought}First:\n"
        '  look(at="Ö?", n=2)\n'
        "  malformed call (it has no name): {}\n"
        "  = two\n"
        "    lines\n"
        "  = Error: no name\n"
        "assistant: <answer>left</answer>"
    )
