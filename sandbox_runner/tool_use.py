"""Base classes that tool-use environments may derive from.

The base owns the text protocol: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, one or
several in a reply, and `<answer>...</answer>`. A subclass writes `reset`, `solution` and one method
`tool_<name>` per tool, and sets `_tools` (name -> {"description", "parameters"}), `_state` and
`_expected_answer`. A wrong call is answered with an error text, never an exception.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import traceback
import types
from collections.abc import Callable
from typing import Any

from sandbox_runner.tool_calls import MalformedCall, ToolCall, last_answer, split_reply
from sandbox_runner.types import EnvError, Limits

MOST_CALLS = 16  # of one reply that are answered each; the others share one text
MOST_BYTES = 30_000  # of all the results of one reply, in UTF-8; fewer beside a long request
ERROR = "Error:"  # how the answer to a wrong call starts
_FORMAT = (
    'Reply with <tool_call>{"name": ..., "arguments": {...}}</tool_call> '
    "or <answer>...</answer>."
)
_CUT = " ... (cut)"
_CUTS = 1_000  # bytes of what is added to results that are cut
_TOLERANCE = 0.01
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
    "array": (list,), "object": (dict,), "null": (types.NoneType,),
}  # fmt: skip
Step = tuple[str, float, bool, bool, dict]


def same_answer(given: str, expected: str) -> bool:
    """Equal without regard to case and outer space, or as numbers within 0.01."""
    given, expected = given.strip().lower(), expected.strip().lower()
    if given == expected:
        return True
    try:
        return abs(_number(given) - _number(expected)) <= _TOLERANCE
    except ValueError:
        return False


def _number(text: str) -> float:
    return float(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)


class ToolUseEnv:
    """One task: call tools, then submit an answer.

    Before a subclass's `reset` runs, the turns and calls of the last episode are forgotten;
    `begin` also forgets `_state` and `_expected_answer`.
    """

    max_turns = 20

    def __init__(self, max_turns: int = 20, **kwargs: Any) -> None:
        self.max_turns = max_turns
        self.begin()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if isinstance(vars(cls).get("reset"), types.FunctionType):
            cls.reset = _as_start(cls.reset)

    def begin(self) -> None:
        """Forget the last episode whole; a subclass's `reset` may call it first."""
        self._forget_turns()
        self._state: dict[str, Any] = {}
        self._expected_answer: Any = ""

    def reset(self, seed: int | None = None) -> tuple[str, dict]:
        """For a subclass's `reset` to call first, if it likes: `begin`, and nothing to show yet."""
        if type(self).reset is ToolUseEnv.reset:
            raise NotImplementedError("the environment has no reset of its own")
        self.begin()
        return "", {}

    def _forget_turns(self) -> None:
        """Also makes what a subclass's constructor has not made."""
        self.turn_count = 0
        self._call_history: list[dict] = []
        for name, value in (("_tools", {}), ("_state", {}), ("_expected_answer", "")):
            setattr(self, name, getattr(self, name, value))

    def _started(self, value: Any) -> Any:
        """What `reset` returns, given what the subclass's returned."""
        return value

    def get_tools(self) -> list[dict]:
        """Raises EnvError for a tool without its method."""
        if type(self).execute_tool is ToolUseEnv.execute_tool:
            for name in self._tools:
                if not callable(getattr(self, f"tool_{name}", None)):
                    raise EnvError("contract", f"_tools has {name!r:.80}, without a tool_ method")
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
        """`{"output": str, "returncode": int}`, and a line in `_call_history` that says it all.

        The return code is 0 when the tool was called and returned, whatever it said, else 1.
        """
        try:
            output, returncode = self._call_tool(name, arguments), 0
        except _WrongCall as error:
            output, returncode = f"{ERROR} {error}", 1
        if len(output) > MOST_BYTES:  # or the history of a session fills its neighbours' memory
            output = _clipped(output, MOST_BYTES)
        self._call_history.append(
            {"name": name, "arguments": arguments, "output": output, "returncode": returncode}
        )
        return {"output": output, "returncode": returncode}

    def _call_tool(self, name: str, arguments: dict) -> str:
        method = getattr(self, f"tool_{name}", None)
        if name not in self._tools or not callable(method):
            known = ", ".join(map(str, self._tools))
            raise _WrongCall(f"no tool named {name!r}; known: {known}")
        _check_arguments(name, arguments, self._tools[name])
        try:
            inspect.signature(method).bind(**arguments)
        except TypeError as error:
            raise _WrongCall(f"{name}: {error}") from None
        except ValueError:  # some built-in functions do not tell theirs
            pass
        try:
            result = method(**arguments)
            if isinstance(result, str):
                return result
            return json.dumps(result, default=str, ensure_ascii=False)
        except MemoryError:
            raise _WrongCall(f"{name} needs more memory than there is") from None
        except Exception as error:  # mostly the Agent's: it is told, and may call again
            said = traceback.format_exception_only(error)[-1].strip()
            raise _WrongCall(f"{name} raised {said}") from None

    def step(self, action: str) -> Step:
        """Calls are made first, in their order, then the last answer outside of them is checked.

        `info` has "malformed", and "tool_results" for a reply that calls.
        """
        self.turn_count += 1
        cut = self.turn_count >= self.max_turns
        calls, outside = split_reply(action)
        answer = last_answer(outside)
        outputs = [_clipped(self._output(call), MOST_BYTES) for call in calls[:MOST_CALLS]]
        if not calls and answer is None:
            return _FORMAT, 0.0, False, cut, {"malformed": True}
        said, reward, terminated = "", 0.0, False
        if answer is not None:
            said, reward, terminated = self._check_answer(answer)
        results = _beside(said, outputs)
        if len(calls) > MOST_CALLS:
            left = len(calls) - MOST_CALLS
            results.append(f"{ERROR} {left} more calls were not made; at most {MOST_CALLS} are.")
        info: dict[str, Any] = {"malformed": any(isinstance(c, MalformedCall) for c in calls)}
        if calls:
            info["tool_results"] = results
        seen = "\n".join(results if answer is None else [*results, said])
        return seen, reward, terminated, cut and not terminated, info

    def _output(self, call: ToolCall | MalformedCall) -> str:
        if isinstance(call, MalformedCall):
            return f"{ERROR} not a tool call: {call.reason}. {_FORMAT}"
        return str(self.execute_tool(call.name, dict(call.arguments))["output"])

    def _check_answer(self, answer: str) -> tuple[str, float, bool]:
        """Observation, reward, terminated. An empty answer is never right."""
        if answer.strip() and same_answer(answer, str(self._expected_answer)):
            return "Correct.", 1.0, True
        return "Wrong answer.", 0.0, True

    def close(self) -> None:
        pass


class MultiTurnToolUseEnv(ToolUseEnv):
    """User instructions revealed one at a time.

    `_user_messages` are the instructions, from 3 to 5, and `_message_criteria` one predicate per
    instruction, called with `_state`. An `<answer>` says that the current instruction is done; it
    is checked, and either the next instruction is shown or the episode ends. The first instruction
    is added to what `reset` returns, if it is not in there; `reset` may return nothing.
    """

    _user_messages: list[str] = []
    _message_criteria: list[Callable[[dict], bool]] = []
    _current_msg = 0

    def _forget_turns(self) -> None:
        super()._forget_turns()
        self._current_msg = 0

    def _started(self, value: Any) -> Any:
        self._check_messages()
        text, info = value if isinstance(value, tuple) and len(value) == 2 else (value, {})
        if not isinstance(text, str | None):
            return value
        first = self._user_messages[0]
        if first not in (text or ""):
            text = f"{text}\n\n{first}" if text else first
        return text, info

    def _check_messages(self) -> None:
        """Every criterion can be asked from the start on, and something is left to do. Raises
        EnvError."""
        messages, criteria = self._user_messages, self._message_criteria
        if len(messages) < 2 or not all(isinstance(message, str) for message in messages):
            raise EnvError("contract", "_user_messages must be at least two texts")
        if len(criteria) != len(messages):
            raise EnvError("contract", f"{len(messages)} messages, but {len(criteria)} criteria")
        for number, criterion in enumerate(criteria, start=1):
            try:
                met = criterion(self._state)
            except Exception as error:
                said = traceback.format_exception_only(error)[-1].strip()
                raise EnvError(
                    "contract",
                    f"criterion {number} raised {said} right after reset: it must work on the "
                    "state that reset leaves, so ask with state.get(...)",
                ) from None
            if met and number == 1:
                raise EnvError(
                    "trivial", "the first instruction is fulfilled before anything was done"
                )

    def _check_answer(self, answer: str) -> tuple[str, float, bool]:
        if not self._is_fulfilled():
            return "The request is not fulfilled.", 0.0, True
        self._current_msg += 1
        if self._current_msg == len(self._user_messages):
            return "All requests are fulfilled.", 1.0, True
        return self._user_messages[self._current_msg], 0.0, False

    def _is_fulfilled(self) -> bool:
        """A criterion worked on the state after reset: what it raises on, the Agent has put in."""
        try:
            return bool(self._message_criteria[self._current_msg](self._state))
        except Exception:
            return False


class _WrongCall(Exception):
    """What the Agent is told about its call."""


def _as_start(reset: Callable) -> Callable:
    @functools.wraps(reset)
    def start(self: ToolUseEnv, *arguments: Any, **keywords: Any) -> Any:
        if type(self).reset is not start:  # a subclass's own `reset` has called it
            return reset(self, *arguments, **keywords)
        self._forget_turns()
        return self._started(reset(self, *arguments, **keywords))

    return start


def _check_arguments(name: str, arguments: dict, spec: Any) -> None:
    """Against "properties", "required" and each "type", as far as they are declared."""
    schema = spec.get("parameters") if isinstance(spec, dict) else None
    if not isinstance(schema, dict):
        return
    required, properties = schema.get("required"), schema.get("properties")
    for field in required if isinstance(required, list | tuple) else ():
        if field not in arguments:
            raise _WrongCall(f"{name}: missing argument {field!r}")
    if not isinstance(properties, dict) or not properties:
        return
    for field, value in arguments.items():
        if field not in properties:
            known = ", ".join(map(str, properties))
            raise _WrongCall(f"{name}: unexpected argument {field!r}; it takes: {known}")
        declared = properties[field].get("type") if isinstance(properties[field], dict) else None
        kinds = declared if isinstance(declared, list | tuple) else [declared]
        if not any(_has_type(value, kind) for kind in kinds):
            expected = " or ".join(map(str, kinds))
            raise _WrongCall(f"{name}: {field} must be {expected}, not {_json_type(value)}")


def _has_type(value: Any, declared: Any) -> bool:
    """Also True for a type that JSON schema does not know. A whole float is an integer."""
    expected = _JSON_TYPES.get(declared) if isinstance(declared, str) else None
    if expected is None:
        return True
    if isinstance(value, bool):
        return bool in expected
    return isinstance(value, expected) or (
        declared == "integer" and isinstance(value, float) and value.is_integer()
    )


def _json_type(value: Any) -> str:
    return next(kind for kind in ("boolean", *_JSON_TYPES) if isinstance(value, _JSON_TYPES[kind]))


def _beside(said: str, outputs: list[str]) -> list[str]:
    """One text per call, made of characters that can be sent, together of bounded size: a step
    tells them twice, and `said` besides."""
    left = Limits.observation_bytes - len(said.encode("utf-8", "replace"))
    room = min(MOST_BYTES, left // 2 - _CUTS)
    results = []
    for output in outputs:
        results.append(_clipped(output, max(0, room)))
        room -= len(results[-1].encode())
    return results


def _clipped(text: str, room: int) -> str:
    """At most `room` bytes and a few; lone surrogates, which no frame can carry, are replaced."""
    data = text[: room + 1].encode("utf-8", "replace")
    if len(data) <= room:
        return data.decode()
    return data[: max(0, room - len(_CUT))].decode("utf-8", "ignore") + _CUT
