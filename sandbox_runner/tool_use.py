"""Base classes that tool-use environments may derive from.

The base owns the text protocol: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, one or
several in a reply, or `<answer>...</answer>`. A subclass writes `reset`, `solution` and one method
`tool_<name>` per tool, and sets `_tools` (name -> {"description", "parameters"}), `_state` and
`_expected_answer`. A wrong call is answered with an error text, never an exception.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_FORMAT = (
    'Reply with <tool_call>{"name": ..., "arguments": {...}}</tool_call> '
    "or <answer>...</answer>."
)
_TOLERANCE = 0.01


def same_answer(given: str, expected: str) -> bool:
    """Equal without regard to case and outer space, or as numbers within 0.01."""
    given, expected = given.strip().lower(), expected.strip().lower()
    if given == expected:
        return True
    try:
        return abs(float(given.replace(",", "")) - float(expected.replace(",", ""))) <= _TOLERANCE
    except ValueError:
        return False


class ToolUseEnv:
    """One task: call tools, then submit an answer."""

    def __init__(self, max_turns: int = 20, **kwargs: Any) -> None:
        self.max_turns = max_turns
        self.begin()

    def begin(self) -> None:
        """Forget the last episode; a subclass's `reset` may call it first."""
        self.turn_count = 0
        self._tools: dict[str, dict] = getattr(self, "_tools", {})
        self._state: dict[str, Any] = {}
        self._expected_answer: Any = ""
        self._call_history: list[dict] = []

    def get_tools(self) -> list[dict]:
        return [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": spec.get("description", ""),
                    "parameters": spec.get("parameters", {"type": "object", "properties": {}}),
                },
            }
            for name, spec in self._tools.items()
        ]

    def execute_tool(self, name: str, arguments: dict) -> dict:
        """`{"output": str, "returncode": int}`; 0 only when the tool ran."""
        method = getattr(self, f"tool_{name}", None)
        if not callable(method):
            known = ", ".join(self._tools)
            return {"output": f"Error: no tool named {name!r}; known: {known}", "returncode": 1}
        try:
            inspect.signature(method).bind(**arguments)
            result = method(**arguments)
        except Exception as error:  # a wrong call is the Agent's, and is answered in text
            return {"output": f"Error: {type(error).__name__}: {error}", "returncode": 1}
        self._call_history.append({"name": name, "arguments": arguments})
        text = result if isinstance(result, str) else json.dumps(result, default=str)
        return {"output": text, "returncode": 0}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn_count = getattr(self, "turn_count", 0) + 1
        cut = self.turn_count >= self.max_turns
        calls, answer = _CALL.findall(action), _ANSWER.search(action)
        if calls:
            observation = "\n".join(self._run(call) for call in calls)
            return self._after_tools(observation, cut)
        if answer:
            return self._after_answer(answer.group(1), cut)
        return _FORMAT, 0.0, False, cut, {}

    def _run(self, call: str) -> str:
        try:
            parsed = json.loads(call)
            name, arguments = parsed["name"], parsed.get("arguments", {})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return f"Error: not a tool call. {_FORMAT}"
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return f"Error: name must be text and arguments an object. {_FORMAT}"
        return self.execute_tool(name, arguments)["output"]

    def _after_tools(self, observation: str, cut: bool) -> tuple[str, float, bool, bool, dict]:
        return observation, 0.0, False, cut, {}

    def _after_answer(self, text: str, cut: bool) -> tuple[str, float, bool, bool, dict]:
        if same_answer(text, str(self._expected_answer)):
            return "Correct.", 1.0, True, False, {}
        return "Wrong answer.", 0.0, True, False, {}

    def close(self) -> None:
        pass


class MultiTurnToolUseEnv(ToolUseEnv):
    """User instructions revealed one at a time.

    `_user_messages` are the instructions and `_message_criteria` one predicate per instruction,
    called with `_state`. An `<answer>` says that the current instruction is done; it is checked,
    and either the next instruction is shown or the episode ends.
    """

    _user_messages: list[str] = []
    _message_criteria: list[Callable[[dict], bool]] = []
    _current_msg = 0

    def begin(self) -> None:
        super().begin()
        self._current_msg = 0

    def _after_answer(self, text: str, cut: bool) -> tuple[str, float, bool, bool, dict]:
        at = self._current_msg
        if at < len(self._message_criteria) and not self._message_criteria[at](self._state):
            return "The request is not fulfilled.", 0.0, True, False, {}
        self._current_msg = at + 1
        if self._current_msg >= len(self._user_messages):
            return "All requests are fulfilled.", 1.0, True, False, {}
        return self._user_messages[self._current_msg], 0.0, False, cut, {}
