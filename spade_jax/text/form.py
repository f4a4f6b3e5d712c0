"""Whether a reply acts in the form that it was asked for."""

from spade_jax.text.actions import after_thinking, last_boxed
from spade_jax.text.tool_calls import MalformedCall, parse_tool_calls

OPEN, CLOSE = "<answer>", "</answer>"


def well_formed(reply: str, tool_use: bool = False) -> bool:
    r"""In a game: it closes a `\boxed{...}`. In tool use: it calls tools, none of them by a
    malformed call, or gives a complete `<answer>...</answer>`. Thinking is no action, and a thought
    without an end leaves room for none."""
    said = after_thinking(reply)
    if not tool_use:
        return last_boxed(said) is not None
    calls = parse_tool_calls(said)
    if any(isinstance(call, MalformedCall) for call in calls):
        return False
    return bool(calls) or CLOSE in said.partition(OPEN)[2]
