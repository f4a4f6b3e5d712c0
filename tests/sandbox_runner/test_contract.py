"""Which class is the environment, and which values it may return."""

import numpy as np
import pytest

from sandbox_runner import contract
from sandbox_runner.types import EnvError

LIMIT = 1000


def namespace(source):
    names = {"__name__": contract.MODULE}
    exec(source, names)
    return names


METHODS = "    def reset(self, seed=None): return ''\n    def step(self, action): pass\n"


def test_a_base_that_another_class_derives_from_does_not_count():
    names = namespace(f"class BaseEnv:\n{METHODS}\nclass RealEnv(BaseEnv): pass")
    assert contract.environment_class(names).__name__ == "RealEnv"


def test_private_and_foreign_classes_do_not_count():
    source = f"class _HelperEnv:\n{METHODS}\nclass RealEnv:\n{METHODS}\nclass Tool: pass"
    names = namespace(source) | {"OtherEnv": type("OtherEnv", (), {"__module__": "elsewhere"})}
    assert contract.environment_class(names).__name__ == "RealEnv"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"class Game:\n{METHODS}", "Game looks like one"),
        (f"class AEnv:\n{METHODS}\nclass BEnv:\n{METHODS}", "found AEnv, BEnv"),
        ("class AEnv:\n    def reset(self, seed=None): pass", "no method step"),
        (f"class AEnv:\n{METHODS}    def reset(self): pass", "reset cannot be called"),
        (f"class AEnv:\n{METHODS}    def step(self): pass", "step cannot be called"),
        (f"class AEnv:\n{METHODS}    async def step(self, action): pass", "plain function"),
        (f"class AEnv:\n{METHODS}    def solution(self, x): pass", "solution cannot be called"),
    ],
)
def test_a_broken_class_is_named(source, expected):
    with pytest.raises(EnvError, match=expected) as caught:
        contract.environment_class(namespace(source))
    assert caught.value.stage == "contract"


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("self, max_turns=5", {"max_turns": 5}),
        ("self, max_turns=50, **kwargs", {"max_turns": 12}),
        ("self, max_turns", {"max_turns": 12}),
        ("self, max_turns=None", {"max_turns": 12}),
        ("self, **kwargs", {}),
        ("self", {}),
    ],
)
def test_an_environment_keeps_its_own_turn_budget_up_to_the_cap(signature, expected):
    cls = namespace(f"class AEnv:\n    def __init__({signature}): pass")["AEnv"]
    assert contract.constructor_arguments(cls, 12) == expected


def test_numpy_scalars_become_plain_values():
    value = (np.str_("x"), np.float32(0.5), np.bool_(True), np.bool_(False), {})
    result = contract.check_step(value, LIMIT)
    assert result == ("x", 0.5, True, False, None, False)
    assert [type(part) for part in result[:4]] == [str, float, bool, bool]


@pytest.mark.parametrize(
    "value",
    [
        ("x", 0.0, True, {}),
        ["x", 0.0, True, False, {}],
        (None, 0.0, True, False, {}),
        ("x", "1", True, False, {}),
        ("x", float("nan"), True, False, {}),
        ("x", float("inf"), True, False, {}),
        ("x", 10.5, True, False, {}),
        ("x", 10**5000, True, False, {}),
        ("x", 0.0, 1, False, {}),
        ("x", 0.0, True, None, {}),
        ("x", 0.0, True, False, None),
        ("\ud800", 0.0, True, False, {}),
    ],
)
def test_a_wrong_step_breaks_the_contract(value):
    with pytest.raises(EnvError) as caught:
        contract.check_step(value, LIMIT)
    assert caught.value.stage == "contract"


def test_a_long_observation_breaks_a_limit_counted_in_bytes():
    assert contract.check_reset("é" * (LIMIT // 2), LIMIT)
    with pytest.raises(EnvError) as caught:
        contract.check_reset("é" * (LIMIT // 2) + "e", LIMIT)
    assert caught.value.stage == "limits"


def test_reset_may_return_text_alone():
    assert contract.check_reset("hello", LIMIT) == contract.check_reset(("hello", {}), LIMIT)
    with pytest.raises(EnvError):
        contract.check_reset(("hello",), LIMIT)


def test_a_program_may_delete_names_that_it_found_ready():
    """Only what it added is looked at, wherever that now stands in the namespace."""
    names = {"string": 1, "field": 2} | namespace("")
    last = next(reversed(names))
    exec(f"del string, field\nclass DoorEnv:\n{METHODS}", names)
    assert contract.environment_class(names, last).__name__ == "DoorEnv"


def test_a_parameter_that_cannot_be_named_is_a_broken_contract():
    names = namespace(f"class DoorEnv:\n{METHODS.replace('seed=None', 'seed, /')}")
    with pytest.raises(EnvError, match="reset cannot be called"):
        contract.environment_class(names)
