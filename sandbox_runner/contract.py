"""The environment contract: which class a program offers, and what its methods may return."""

from __future__ import annotations

import inspect
import itertools
import math
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from sandbox_runner.protocol import MOST_RESULTS
from sandbox_runner.types import EnvError

MODULE = "environment"  # the name that a loaded program sees as its `__name__`
REWARD_BOUND = 10.0
_NOT_PLAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
BASES = ("ToolUseEnv", "ToolUseBaseEnv", "MultiTurnToolUseEnv")  # classes a program finds ready


def environment_class(namespace: dict[str, Any], last: str | None = None) -> type:
    """The one public class named `...Env`. Raises EnvError("contract").

    Names up to `last` were there before the program was loaded; of those only `BASES` are looked
    at, which it may have replaced. (Touching all would copy memory in every child.)
    """
    added = list(itertools.takewhile(lambda name: name != last, reversed(namespace)))
    names = [*(name for name in BASES if name in namespace and name not in added), *added[::-1]]
    own = {
        namespace[name]: name
        for name in names
        if isinstance(namespace[name], type)
        and namespace[name].__module__ == MODULE
        and not name.startswith("_")
    }
    named = [cls for cls, name in own.items() if cls.__name__.endswith("Env")]
    leaves = [c for c in named if not any(o is not c and issubclass(o, c) for o in named)]
    if not leaves:
        near = [name for cls, name in own.items() if hasattr(cls, "reset") and hasattr(cls, "step")]
        hint = f"; {near[0]} looks like one but is not named so" if near else ""
        raise EnvError("contract", f"no public class whose name ends in Env{hint}")
    if len(leaves) > 1:
        names = ", ".join(cls.__name__ for cls in leaves)
        raise EnvError("contract", f"exactly one class ending in Env is expected, found {names}")
    cls = leaves[0]
    _check_signature(cls, "reset", {"seed": 0})
    _check_signature(cls, "step", {}, "action")
    for optional in ("solution", "get_tools"):
        if getattr(cls, optional, None) is not None:
            _check_signature(cls, optional, {})
    return cls


def _check_signature(cls: type, name: str, keywords: dict[str, Any], *positional: str) -> None:
    method = getattr(cls, name, None)
    if not callable(method):
        raise EnvError("contract", f"{cls.__name__} has no method {name}")
    if _is_written_so(method, ["self", *positional, *keywords]):
        return
    if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
        raise EnvError("contract", f"{name} must be a plain function, not async or a generator")
    bound = not isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod)
    try:
        inspect.signature(method).bind(*(["self"] if bound else []), *positional, **keywords)
    except TypeError as error:
        call = ", ".join([*positional, *(f"{key}=..." for key in keywords)])
        raise EnvError("contract", f"{name} cannot be called as {name}({call}): {error}") from None


def _is_written_so(method: Any, names: list[str]) -> bool:
    """Whether it is a plain function with just these parameters, which spares an inspection: that
    costs a child a millisecond, most of it for memory that it no longer shares."""
    if type(method) is not types.FunctionType or hasattr(method, "__wrapped__"):
        return False
    code = method.__code__
    if code.co_flags & _NOT_PLAIN or code.co_kwonlyargcount or code.co_posonlyargcount:
        return False
    return list(code.co_varnames[: code.co_argcount]) == names


def constructor_arguments(cls: type, max_turns: int) -> dict[str, int]:
    """`max_turns` for the constructor where it takes one: its own default, capped."""
    init = cls.__init__
    if type(cls) is type and _is_written_so(init, ["self", "max_turns"]):
        own = init.__defaults__[-1] if init.__defaults__ else None
    else:
        parameter = inspect.signature(cls).parameters.get("max_turns")
        if parameter is None or parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return {}
        own = parameter.default
    usable = isinstance(own, int) and not isinstance(own, bool) and own > 0
    return {"max_turns": min(own, max_turns) if usable else max_turns}


def observation_text(value: Any, source: str, limit: int) -> str:
    """`value` as an exact str of at most `limit` UTF-8 bytes. Raises EnvError."""
    if not isinstance(value, str):
        raise EnvError("contract", f"{source} must be a str, not {_kind(value)}")
    text = str.__str__(value)
    try:
        size = _bytes(text)
    except UnicodeEncodeError:
        raise EnvError("contract", f"{source} holds a lone surrogate, which is not text") from None
    if size > limit:
        raise EnvError(
            "limits", f"{source} has {size} bytes, at most {limit} allowed: do not echo or pile up"
        )
    return text


def check_together(texts: Iterable[str], source: str, limit: int) -> None:
    size = sum(map(_bytes, texts))
    if size > limit:
        raise EnvError(
            "limits", f"{source} have {size} bytes together, at most {limit} allowed"
        )


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def check_reset(value: Any, limit: int) -> str:
    """The observation of `(str, dict)` or of a bare str."""
    if isinstance(value, tuple):
        if len(value) != 2 or not isinstance(value[1], dict):
            raise EnvError("contract", f"reset must return (str, dict), not {_shape(value)}")
        value = value[0]
    return observation_text(value, "the observation of reset", limit)


def check_step(
    value: Any, limit: int
) -> tuple[str, float, bool, bool, tuple[str, ...] | None, bool]:
    """The checked fields of a StepResult; of info, "tool_results" and "malformed" alone count."""
    if not isinstance(value, tuple) or len(value) != 5:
        raise EnvError(
            "contract",
            "step must return (observation, reward, terminated, truncated, info), "
            f"not {_shape(value)}",
        )
    observation, reward, terminated, truncated, info = value
    text = observation_text(observation, "the observation of step", limit)
    number = _reward(reward)
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            raise EnvError("contract", f"{name} must be a bool, not {_kind(flag)}")
    if not isinstance(info, dict):
        raise EnvError("contract", f"info must be a dict, not {_kind(info)}")
    if not info:
        return text, number, bool(terminated), bool(truncated), None, False
    results = _tool_results(dict.get(info, "tool_results"), text, limit)
    malformed = dict.get(info, "malformed", False)
    if not isinstance(malformed, bool | np.bool_):
        raise EnvError("contract", f'info["malformed"] must be a bool, not {_kind(malformed)}')
    return text, number, bool(terminated), bool(truncated), results, bool(malformed)


def _tool_results(value: Any, observation: str, limit: int) -> tuple[str, ...] | None:
    """An empty list is as good as none: no call was answered."""
    if value is None:
        return None
    if type(value) not in (list, tuple):
        raise EnvError("contract", f'info["tool_results"] must be a list, not {_kind(value)}')
    if len(value) > MOST_RESULTS:
        raise EnvError("limits", f"{len(value)} tool results, at most {MOST_RESULTS} allowed")
    results = tuple(observation_text(text, "a tool result", limit) for text in value)
    check_together((observation, *results), "the observation and its tool results", limit)
    return results or None


def _reward(value: Any) -> float:
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        raise EnvError("contract", f"the reward must be a number, not {_kind(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not -REWARD_BOUND <= number <= REWARD_BOUND:
        raise EnvError("contract", f"the reward is {number:g}, not finite and in [-10, 10]")
    return number


def check_solution(value: Any, limit: int) -> str | None:
    """The reference solution, None when the environment gives none."""
    return None if value is None else observation_text(value, "the solution", limit)


def _kind(value: Any) -> str:
    return type(value).__name__


def _shape(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_kind(part) for part in value[:8]) + ")"
    return _kind(value)
