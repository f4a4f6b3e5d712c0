"""The base classes for tool-use environments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_runner import EnvError, Limits
from sandbox_runner.contract import check_step
from sandbox_runner.tool_calls import last_answer, split_reply
from sandbox_runner.tool_use import (
    MOST_BYTES,
    MOST_CALLS,
    MultiTurnToolUseEnv,
    ToolUseEnv,
    same_answer,
)


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
    assert same_answer("1,2", "1,2") and not same_answer("1,2", "12")
    assert not same_answer("nan", "1") and not same_answer("1", "")


def test_no_answer_is_never_right(bank):
    bank._expected_answer = ""
    assert bank.step("<answer> </answer>")[1:3] == (0.0, True)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        ("<answer>1</answer> <answer>", "1"),
        ("<answer>1</answer></answer>", "1"),
        ("<answer><answer>1</answer>", "1"),
        ("<answer>1", None),
        ("</answer><answer>", None),
        ("", None),
    ],
)
def test_the_last_complete_answer_counts(text, answer):
    assert last_answer(text) == answer


def test_what_stands_outside_of_calls():
    calls, outside = split_reply(f"a{call()}b<tool_call>{{}}</tool_call>c</tool_call>")
    assert len(calls) == 2 and outside == "abc</tool_call>"
    assert split_reply("a<tool_call>b<answer>1</answer>")[1] == "a"
    assert split_reply("plain") == ([], "plain")


def test_calls_are_made_before_the_answer_is_checked_and_may_hold_its_tags(bank):
    inside = call(arguments='{"account": "<answer>120</answer>"}')
    assert bank.step(inside)[2:4] == (False, False)
    observation, reward, terminated, _, info = bank.step(call() + "<answer>120</answer>" + inside)
    assert observation.startswith('{"balance": 120}\nError') and observation.endswith("Correct.")
    assert (reward, terminated, info["malformed"]) == (1.0, True, False)
    assert observation == "\n".join([*info["tool_results"], "Correct."])
    assert [entry["returncode"] for entry in bank._call_history] == [1, 0, 1]


@pytest.mark.parametrize(
    ("action", "malformed", "results"),
    [
        (call(), False, 1),
        (call("nope") + call(arguments='{"wrong": 1}'), False, 2),
        (call() + "<tool_call>{</tool_call>", True, 2),
        ("<tool_call>{", True, 1),
        ("prose", True, None),
        ("<answer>1", True, None),
        ("<answer>1</answer>", False, None),
        ("<tool_call>{</tool_call><answer>1</answer>", True, 1),
    ],
)
def test_info_tells_results_and_broken_format(bank, action, malformed, results):
    info = bank.step(action)[-1]
    assert info["malformed"] is malformed
    assert (len(info["tool_results"]) if results else info.get("tool_results")) == results


def test_the_history_says_what_was_called_and_what_came_of_it(bank):
    bank.step(call() + call(arguments='{"account": "bob"}') + "<tool_call>{</tool_call>")
    ada, bob = bank._call_history
    assert ada == {"name": "balance", "arguments": {"account": "ada"},
                   "output": '{"balance": 120}', "returncode": 0}  # fmt: skip
    assert bob["output"] == "Error: balance raised KeyError: 'bob'" and bob["returncode"] == 1
    bank.reset()
    assert bank._call_history == []


class TypedEnv(ToolUseEnv):
    def reset(self, seed=None):
        self._tools = {"f": {"parameters": {
            "type": "object",
            "properties": {
                "n": {"type": "integer"}, "x": {"type": "number"}, "s": {"type": "string"},
                "flag": {"type": "boolean"}, "many": {"type": "array"}, "part": {"type": "object"},
                "either": {"type": ["string", "null"]}, "odd": {"type": "str"}, "free": {},
            },
            "required": ["n"],
        }}}  # fmt: skip
        return "go"

    def tool_f(self, **arguments):
        return sorted(arguments)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ('{"n": 1, "x": 2, "s": "a", "flag": true, "many": [], "part": {}}', None),
        ('{"n": 3.0, "either": null, "odd": 1, "free": [1]}', None),
        ("{}", "f: missing argument 'n'"),
        ('{"n": 1, "m": 2}', "f: unexpected argument 'm'; it takes: n, x, s"),
        ('{"n": "1"}', "f: n must be integer, not string"),
        ('{"n": 1.5}', "f: n must be integer, not number"),
        ('{"n": true}', "f: n must be integer, not boolean"),
        ('{"n": 1, "x": "2"}', "f: x must be number, not string"),
        ('{"n": 1, "flag": 1}', "f: flag must be boolean, not integer"),
        ('{"n": 1, "many": {}}', "f: many must be array, not object"),
        ('{"n": 1, "either": 3}', "f: either must be string or null, not integer"),
    ],
)
def test_arguments_are_held_against_the_schema(arguments, error):
    env = TypedEnv()
    env.reset()
    observation = env.step(call("f", arguments))[0]
    assert observation.startswith("Error") == (error is not None)
    assert (error or "") in observation


class LoudEnv(ToolUseEnv):
    """Its tools say more than one reply may."""

    def reset(self, seed=None):
        self._tools = {"shout": {}, "echo": {}, "loop": {}}
        return "go"

    def tool_shout(self, n):
        return "é" * n

    def tool_echo(self, text):
        return text

    def tool_loop(self):
        found = []
        found.append(found)
        return found


def test_whatever_is_called_the_results_can_be_sent():
    env = LoudEnv()
    env.reset()
    loud = env.step(call("shout", '{"n": 9}') + call("shout", '{"n": 99999}') * 99)
    results = loud[-1]["tool_results"]
    assert results[0] == "é" * 9 and results[1].endswith("(cut)")
    assert len(results) == MOST_CALLS + 1 and "84 more calls" in results[-1]
    assert sum(len(text.encode()) for text in results) < MOST_BYTES + 1000
    assert env.step(call("echo", r'{"text": "\ud800"}'))[0] == "?"
    assert "raised ValueError: Circular" in env.step(call("loop", "{}"))[0]


pieces = st.sampled_from(
    [call(), call("shout", '{"n": 2}'), call("loop", "{}"), call("nope"), "<answer>", "</answer>",
     "<tool_call>", "</tool_call>", '"', "{", "x", r'<tool_call>{"name": "echo", "arguments": ',
     r'{"text": "\ud800"}}', "\n"]
)  # fmt: skip


@given(replies=st.lists(st.lists(pieces, max_size=12).map("".join), max_size=4))
def test_no_reply_raises_and_all_that_is_seen_can_be_sent(replies):
    env = LoudEnv(max_turns=4)
    env.reset()
    for turn, reply in enumerate(replies, start=1):
        observation, reward, terminated, truncated, info = env.step(reply)
        results = info.get("tool_results", [])
        assert (observation + "".join(results)).encode()
        assert observation.startswith("\n".join(results)) and reward == 0.0
        assert bool(results) == ("<tool_call>" in reply)
        assert truncated == (turn == 4 and not terminated)
        if terminated:
            break


def test_a_tool_needs_its_method_and_its_declaration(bank):
    assert "no tool named 'hidden'" in bank.step(call("hidden", "{}"))[0]
    bank.tool_hidden = lambda: "secret"
    assert "no tool named 'hidden'" in bank.step(call("hidden", "{}"))[0]
    bank._tools["most"], bank.tool_most = {}, max
    assert "most raised TypeError: max expected" in bank.step(call("most", "{}"))[0]
    bank._tools["gone"] = {}
    with pytest.raises(EnvError, match="'gone'") as caught:
        bank.get_tools()
    assert caught.value.stage == "contract"


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


class NewLightsEnv(LightsEnv):
    made = ()

    def __init__(self):
        pass  # forgets the base

    def reset(self, seed=None):
        super().reset(seed)
        for name, value in self.made:
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("changed", "stage", "reason"),
    [
        ({"_user_messages": ["One."], "_message_criteria": [bool]}, "contract", "at least two"),
        ({"_user_messages": ["One.", 2]}, "contract", "at least two texts"),
        ({"_message_criteria": [bool]}, "contract", "2 messages, but 1 criteria"),
        ({"_message_criteria": [bool, lambda s: s["on"]]}, "contract",
         "criterion 2 raised KeyError: 'on' right after reset"),
        ({"_message_criteria": [lambda s: True, bool]}, "trivial", "before anything was done"),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_asked_are_the_environments_fault(changed, stage, reason):
    env = NewLightsEnv()
    env.made = changed.items()
    with pytest.raises(EnvError, match=reason) as caught:
        env.reset()
    assert caught.value.stage == stage


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        (None, "Turn the lamp on."),
        ("A room.", "A room.\n\nTurn the lamp on."),
        (("Hi! Turn the lamp on. ", {"a": 1}), "Hi! Turn the lamp on. "),
        (("", {}), "Turn the lamp on."),
    ],
)
def test_a_reset_shows_the_first_request(returned, shown):
    class Env(LightsEnv):
        def reset(self, seed=None):
            super().reset(seed)
            return returned

    assert Env().reset(seed=1)[0] == shown


def test_a_reset_forgets_turns_calls_and_requests_by_itself():
    env = NewLightsEnv()
    env.reset()
    env.step(call("switch", '{"on": true}'))
    env.step("<answer>done</answer>")
    assert (env.turn_count, env._current_msg, len(env._call_history)) == (2, 1, 1)
    env.reset()
    assert (env.turn_count, env._current_msg, len(env._call_history)) == (0, 0, 0)


def test_a_reset_may_begin_with_that_of_the_base_but_not_be_it():
    class Env(BankEnv):
        def reset(self, seed=None):
            assert ToolUseEnv.reset(self, seed) == ("", {})
            return f"state {self._state}", {}

    env = Env()
    env._state["left"] = 1
    assert env.reset(seed=1) == ("state {}", {})
    with pytest.raises(NotImplementedError, match="no reset of its own"):
        ToolUseEnv().reset()


def test_a_reply_that_calls_and_answers_moves_on_to_the_next_request():
    env = LightsEnv()
    env.reset()
    observation, _, terminated, _, info = env.step(
        call("switch", '{"on": true}') + "<answer>done</answer>"
    )
    assert observation == "done\nTurn it off again." and not terminated
    assert info["tool_results"] == ["done"]


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


@pytest.mark.parametrize("value", ['"x"', "1" + "0" * 400, "null"])
def test_a_state_that_a_criterion_cannot_read_fulfils_no_request(value):
    env = NewLightsEnv()
    env.made = {"_message_criteria": [lambda s: s.get("on", 0) / 2 == 1.0] * 2}.items()
    env.reset()
    step = env.step(call("switch", f'{{"on": {value}}}') + "<answer>done</answer>")
    assert step[:3] == ("done\nThe request is not fulfilled.", 0.0, True)


def test_a_tool_without_memory_is_told_to_the_agent(bank):
    def balance(account):
        raise MemoryError

    bank.tool_balance = balance
    observation, reward, terminated, _, _ = bank.step(call())
    assert observation == "Error: balance needs more memory than there is"
    assert (reward, terminated) == (0.0, False) and bank._call_history[0]["returncode"] == 1


@pytest.mark.parametrize("size", [0, 3_000, 20_000, 60_000])
def test_results_leave_room_for_the_next_request(size):
    env, request = NewLightsEnv(), "é" * (size // 2)
    env.made = [("_user_messages", ["Turn the lamp on.", request])]
    env.tool_switch = lambda on: env._state.update(on=on) or "done " * 5_000
    env.reset()
    step = env.step(call("switch", '{"on": true}') * 9 + "<answer>done</answer>")
    observation, _, _, _, results, _ = check_step(step, Limits().observation_bytes)
    assert observation == "\n".join([*results, request])
    kept = sum(len(text) for text in results)
    assert kept >= (MOST_BYTES if size < 5_000 else (65_536 - size) // 2 - 1_000)


def test_the_history_keeps_no_more_of_a_result_than_is_told():
    env = LoudEnv()
    env.reset()
    env.step(call("shout", '{"n": 99999}') * 2)
    assert all(len(entry["output"].encode()) <= MOST_BYTES for entry in env._call_history)
    assert env.execute_tool("shout", {"n": 9})["output"] == "é" * 9
