"""Whether a reply acts in the form that it was asked for."""

from sandbox_runner.tool_calls import MalformedCall, last_answer, split_reply
from spade_jax.text.actions import after_thinking, last_boxed


def well_formed(reply: str, tool_use: bool = False) -> bool:
    r"""In a game: it closes a `\boxed{...}`. In tool use: it calls tools, none of them by a
    malformed call, or gives a complete `<answer>...</answer>`. Thinking is no action, and a thought
    without an end leaves room for none."""
    said = after_thinking(reply)
    if not tool_use:
        return last_boxed(said) is not None
    calls, outside = split_reply(said)
    if any(isinstance(call, MalformedCall) for call in calls):
        return False
    return bool(calls) or last_answer(outside) is not None
