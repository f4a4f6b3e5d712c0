"""A program behind Gymnasium's interface, judged by Gymnasium's own checker."""

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from sandbox_runner import EnvError, RunnerError, gymnasium_env
from sandbox_runner.gymnasium_env import SandboxEnv, UnicodeText
from tests.sandbox_runner.processes import alive, below
from tests.sandbox_runner.shop import CALL, SHOP

ROOT = Path(__file__).resolve().parents[2]
UNICODE = "zażółć 数字 🧩 e\u0301 \x00 \u202e \\boxed{½}"
TELLS_CODE_POINTS = """
class EchoEnv:
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return " ".join(str(ord(c)) for c in action), 0.0, False, False, {}
"""


@pytest.fixture
def make(pool):
    """`make(source)` is a SandboxEnv on the shared pool, closed after the test."""
    made = []

    def make_one(source, **keywords):
        made.append(SandboxEnv(source, pool=pool, **keywords))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def episode(env, actions, **keywords):
    return [env.reset(**keywords), *(env.step(action) for action in actions)]


@pytest.mark.parametrize("name", ["guess_number", "numpy_grid"])
def test_check_env_passes_without_a_warning(make, program, name):
    spec = EnvSpec("Sandbox-v0", entry_point=lambda: make(program(f"sound/{name}")))
    env = gymnasium.make(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_a_seed_reproduces_its_episode_and_those_that_follow(make, program):
    env = make(program("sound/numpy_grid"))
    actions = [r"\boxed{4}", r"\boxed{0}"]
    first = [episode(env, actions, seed=5), episode(env, actions)]
    again = [episode(env, actions, seed=5), episode(env, actions)]
    assert first == again
    (start, info), (next_start, next_info) = first[0][0], first[1][0]
    assert info == {"seed": 5} and next_info != info and next_start != start
    assert episode(env, actions, seed=next_info["seed"]) == first[1]


def test_a_whole_episode_can_be_won(make, program):
    env = make(program("sound/guess_number"), max_turns=8)
    env.reset(seed=1)
    low, high = 1, 100
    while True:
        guess = (low + high) // 2
        text, reward, terminated, truncated, _ = env.step(rf"\boxed{{{guess}}}")
        if terminated or truncated:
            break
        low, high = (guess + 1, high) if "higher" in text else (low, guess - 1)
    assert (reward, terminated, truncated) == (1.0, True, False)


def test_the_turn_budget_truncates(make, program):
    env = make(program("unsound/never_ends"), max_turns=2)
    _, first, last = episode(env, ["x", "x"], seed=1)
    assert (first[3], last[3]) == (False, True)


def test_unicode_actions_reach_the_program_unchanged(make):
    env = make(TELLS_CODE_POINTS)
    env.action_space.seed(0)
    actions = [UNICODE, "", *(env.action_space.sample() for _ in range(3))]
    _, *steps = episode(env, actions)
    assert [[chr(int(code)) for code in step[0].split()] for step in steps] == [*map(list, actions)]


def test_info_has_tools_results_and_broken_format(make):
    env = make(SHOP)
    _, info = env.reset(seed=1)
    assert [tool["function"]["name"] for tool in info["tools"]] == ["price"]
    assert env.step(CALL)[-1] == {"tool_results": ('{"price": 31}',), "malformed": False}
    assert env.step("hm")[-1] == {"tool_results": None, "malformed": True}
    check_env(env, skip_render_check=True)


def test_info_of_a_game_is_empty(make):
    assert episode(make(TELLS_CODE_POINTS), ["a"], seed=1) == [
        ("ready", {"seed": 1}), ("97", 0.0, False, False, {})
    ]  # fmt: skip


@pytest.mark.parametrize("action", [7, None, b"x", "\ud800", "x" * 6])
def test_what_is_no_action_is_the_callers_fault(make, action):
    env = make(TELLS_CODE_POINTS, max_action_length=5)
    env.reset(seed=1)
    with pytest.raises(RunnerError, match="at most 5 characters"):
        env.step(action)
    assert env.step("a")[0] == "97"


def test_a_program_that_does_not_load_raises_at_once(make, program):
    with pytest.raises(EnvError) as raised:
        make(program("unsound/does_not_parse"))
    assert raised.value.stage == "parse"


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("unsound/crashes_on_text", "robustness"),
        ("hostile/os_exit", "robustness"),
        ("hostile/huge_reward", "contract"),
    ],
)
def test_a_fault_in_an_episode_raises_its_error(make, program, name, stage):
    env = make(program(name))
    env.reset(seed=1)
    with pytest.raises(EnvError) as raised:
        env.step("text without a box")
    assert raised.value.stage == stage


def test_close_ends_the_child_and_a_pool_of_its_own():
    before = set(below(os.getpid()))
    env = SandboxEnv(TELLS_CODE_POINTS)
    env.reset()
    processes = set(below(os.getpid())) - before
    assert len(processes) == 3  # keeper, zygote, child
    env.close()
    env.close()
    deadline = time.monotonic() + 5.0
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, processes))
    with pytest.raises(RunnerError, match="not open"):
        env.reset()


def test_close_leaves_a_pool_that_was_given_to_others(make):
    one, other = make(TELLS_CODE_POINTS), make(TELLS_CODE_POINTS)
    other.reset()
    one.close()
    assert other.step("a")[0] == "97"


def test_a_failed_start_leaves_no_pool_behind(monkeypatch):
    calls = []

    class BrokenPool:
        def __enter__(self):
            calls.append("enter")
            return self

        def __exit__(self, *_):
            calls.append("exit")

        def open(self, sources, max_turns):
            return [EnvError("load", "no")]

    monkeypatch.setattr(gymnasium_env, "BlockingPool", BrokenPool)
    with pytest.raises(EnvError):
        SandboxEnv("")
    assert calls == ["enter", "exit"]


def test_several_run_side_by_side_in_a_vector_env(make):
    envs = gymnasium.vector.SyncVectorEnv([lambda: make(TELLS_CODE_POINTS)] * 2)
    assert envs.reset(seed=1)[0] == ("ready", "ready")
    assert envs.step(("a", "é"))[0] == ("97", "233")


def test_the_text_space_holds_every_text_up_to_its_length():
    space = UnicodeText(len(UNICODE))
    assert UNICODE in space and "" in space
    assert UNICODE + "x" not in space and "\udfff" not in space and 3 not in space
    assert space == UnicodeText(len(UNICODE)) and space != UnicodeText(5)
    with pytest.raises(ValueError, match="at least 1"):
        UnicodeText(0)


def test_samples_follow_the_seed_and_stay_inside():
    space, same, other = UnicodeText(9, seed=1), UnicodeText(9, seed=1), UnicodeText(9, seed=2)
    drawn = [space.sample() for _ in range(200)]
    assert all(text in space for text in drawn)
    assert {len(text) for text in drawn} == set(range(10))
    assert drawn == [same.sample() for _ in range(200)] != [other.sample() for _ in range(200)]
    with pytest.raises(ValueError, match="mask"):
        space.sample(mask=(3, None))


def test_the_package_does_not_import_gymnasium():
    script = "import sys, sandbox_runner; sys.exit('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0
