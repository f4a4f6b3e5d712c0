"""The base classes for tool-use environments."""

import pytest

from sandbox_runner.tool_use import MultiTurnToolUseEnv, ToolUseEnv, same_answer


class BankEnv(ToolUseEnv):
    def reset(self, seed=None):
        self.begin()
        self._tools = {"balance": {"description": "of an account"}}
        self._expected_answer = "120.00"
        return "What is the balance of ada?", {}

    def tool_balance(self, account):
        return {"balance": {"ada": 120}[account]}


@pytest.fixture
def bank():
    env = BankEnv(max_turns=3)
    env.reset()
    return env


def call(name="balance", arguments='{"account": "ada"}'):
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


def test_several_calls_are_answered_in_order(bank):
    observation, reward, terminated, truncated, _ = bank.step(call() + "then" + call("nope"))
    assert observation.splitlines()[0] == '{"balance": 120}'
    assert "no tool named 'nope'" in observation.splitlines()[1]
    assert (reward, terminated, truncated) == (0.0, False, False)


@pytest.mark.parametrize(
    "action",
    [
        call(arguments='{"account": "bob"}'),
        call(arguments='{"wrong": 1}'),
        call(arguments="[1]"),
        "<tool_call>not json</tool_call>",
        "<tool_call>[1, 2]</tool_call>",
        "<tool_call>" + "[" * 100_000 + "</tool_call>",
    ],
)
def test_a_wrong_call_is_answered_with_an_error_text(bank, action):
    observation, reward, terminated, _, _ = bank.step(action)
    assert observation.startswith("Error") and not terminated and reward == 0.0


def test_the_answer_ends_the_episode(bank):
    assert bank.step("<answer>120</answer>")[1:3] == (1.0, True)
    assert bank.step("<answer>121</answer>")[1:3] == (0.0, True)


def test_other_replies_are_reminded_of_the_format_and_count_as_turns(bank):
    results = [bank.step("hello") for _ in range(3)]
    assert "<tool_call>" in results[0][0]
    assert [result[3] for result in results] == [False, False, True]


def test_answers_compare_without_case_and_within_a_hundredth():
    assert same_answer(" Paris ", "paris") and same_answer("1,000.005", "1000")
    assert not same_answer("1000.02", "1000") and not same_answer("Rome", "Paris")


def test_tools_are_described_as_function_schemas(bank):
    (schema,) = bank.get_tools()
    assert schema["function"]["name"] == "balance"
    assert schema["function"]["parameters"]["type"] == "object"


class LightsEnv(MultiTurnToolUseEnv):
    def reset(self, seed=None):
        self.begin()
        self._tools = {"switch": {}}
        self._user_messages = ["Turn the lamp on.", "Turn it off again."]
        self._message_criteria = [lambda s: s.get("on") is True, lambda s: s.get("on") is False]
        return self._user_messages[0], {}

    def tool_switch(self, on):
        self._state["on"] = on
        return "done"


def test_requests_are_revealed_one_at_a_time():
    env = LightsEnv()
    env.reset()
    env.step(call("switch", '{"on": true}'))
    assert env.step("<answer>done</answer>")[:3] == ("Turn it off again.", 0.0, False)
    assert env.step("<answer>done</answer>")[1:3] == (0.0, True)
    env.reset()
    for on in ("true", "false"):
        env.step(call("switch", f'{{"on": {on}}}'))
        last = env.step("<answer>done</answer>")
    assert last[1:3] == (1.0, True)
