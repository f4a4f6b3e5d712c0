"""What an agent reads first: the first observation, with the hint where it belongs."""

from spade_jax.prompts import Prompts
from spade_jax.text import Message

HINT_STYLES = ("append", "prepend", "system")


def opening(
    prompts: Prompts,
    observation: str,
    hint: str | None,
    style: str = "append",
    tool_use: bool = False,
) -> tuple[Message, ...]:
    """The messages of a fresh episode; the last one is the user's.

    Args:
        hint: None or "" for the plays without.
        style: one of HINT_STYLES: the hint follows the observation (as published), precedes it, or
            is a system message.
    """
    system: tuple[Message, ...] = ()
    if hint and style == "system":
        system = (Message("system", prompts.render("hint_system", hint=hint)),)
    if hint and style == "prepend":
        observation = prompts.render("hint_prepend", observation=observation, hint=hint)
    shown = prompts.render(
        "observation_tools" if tool_use else "observation",
        observation=observation,
        hint=hint if style == "append" else None,
    )
    return (*system, Message("user", shown))
