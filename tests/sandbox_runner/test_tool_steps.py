"""What a pool tells of tools: their schemas after a reset, results and broken format of a step."""

import json

import pytest

from sandbox_runner import EnvError, Limits, Observation, contract, protocol
from sandbox_runner.checks import check_answer
from sandbox_runner.protocol import ProtocolError
from tests.sandbox_runner.shop import CALL, SHOP, schema

LIMIT = 1000
BARE = """
class BareEnv:
    def get_tools(self):
        return {tools}
    def reset(self, seed=None):
        return "go"
    def step(self, action):
        return "seen", 0.0, False, False, {info}
"""


@pytest.fixture
def play(pool):
    """`play(source, *actions)` is what a reset and the steps gave."""
    sessions = []

    def episode(source, *actions):
        sessions.extend(pool.open([source]))
        start = pool.reset([(sessions[-1], 1)])
        return start + [pool.step([(sessions[-1], action)])[0] for action in actions]

    yield episode
    pool.close(sessions)


def test_a_reset_tells_the_schemas_and_a_step_one_text_per_call(play):
    start, both, prose, broken, done = play(
        SHOP, CALL + CALL, "hm", CALL + "<tool_call>{</tool_call>", "<answer>62</answer>"
    )
    (tool,) = start.tools
    assert tool["function"]["name"] == "price" and start.text == "What do two pens cost?"
    assert both.tool_results == ('{"price": 31}',) * 2 and not both.malformed
    assert both.observation == "\n".join(both.tool_results)
    assert prose.tool_results is None and prose.malformed
    assert broken.malformed and broken.tool_results[0] == '{"price": 31}'
    assert "not a tool call" in broken.tool_results[1]
    assert (done.tool_results, done.malformed, done.reward) == (None, False, 1.0)


def test_a_game_has_no_tools_and_no_results(play, program):
    start, step = play(program("sound/guess_number"), r"\boxed{3}")
    assert start.tools == () and step.tool_results is None and step.malformed is False


def test_results_follow_the_turn_of_each_session(pool):
    first, second = pool.open([SHOP] * 2, shareable=[True] * 2)
    pool.reset([(first, 1), (second, 5)])
    results = pool.step([(first, CALL), (second, CALL)])
    assert [result.tool_results for result in results] == [('{"price": 31}',), ('{"price": 35}',)]
    pool.close([first, second])


@pytest.mark.parametrize(
    ("tools", "stage", "expected"),
    [
        ("None", "contract", "a list, not NoneType"),
        ("{'f': 1}", "contract", "a list, not dict"),
        ("[]", "contract", "gives no tool"),
        ("['f']", "contract", "JSON objects"),
        ("[{'name': 'f'}]", "contract", '"type": "function"'),
        ("[{'type': 'function', 'function': {}}]", "contract", "named None"),
        ("[{'type': 'function', 'function': {'name': 'a b'}}]", "contract", "named 'a b'"),
        (str([schema(description=3)]), "contract", "description of f must be a str"),
        (str([schema(parameters=[])]), "contract", "parameters of f must be a dict"),
        (str([schema(), schema()]), "contract", "names f twice"),
        ("[{'type': 'function', 'function': {'name': 'f', 'x': {1, 2}}}]", "contract", "set"),
        ("[{'type': 'function', 'function': {'name': 'f', 'x': math.nan}}]", "contract", "JSON"),
        ("[{'type': 'function', 'function': {'name': 'f', 'x': '\\ud800'}}]", "contract", "JSON"),
        (str([schema(x=json.loads("[" * 40 + "]" * 40))]), "contract", "more than 32 deep"),
        (str([schema(f"f{n}") for n in range(65)]), "limits", "65 tools"),
        (str([schema(description="x" * 70_000)]), "limits", "bytes together"),
        ("1 / 0", "robustness", "get_tools raised ZeroDivisionError"),
    ],
)
def test_tools_that_are_none_are_the_environments_fault(play, tools, stage, expected):
    (error,) = play(BARE.replace("{tools}", tools).replace("{info}", "{}"))
    assert isinstance(error, EnvError) and error.stage == stage
    assert expected in error.detail


@pytest.mark.parametrize(
    ("info", "stage"),
    [
        ("{'tool_results': 'text'}", "contract"),
        ("{'tool_results': [1]}", "contract"),
        ("{'tool_results': ['\\ud800']}", "contract"),
        ("{'tool_results': ['']  * 257}", "limits"),
        ("{'tool_results': ['x' * 40_000] * 2}", "limits"),
        ("{'malformed': 1}", "contract"),
    ],
)
def test_a_wrong_info_is_the_environments_fault(play, info, stage):
    tools = [schema()]
    start, error = play(BARE.replace("{tools}", str(tools)).replace("{info}", info), "x")
    assert start == Observation("go", tuple(tools)) and isinstance(error, EnvError)
    assert error.stage == stage


def test_lies_about_tools_end_nothing_but_the_program(play, program):
    (error,) = play(program("hostile/lying_tools"))
    assert isinstance(error, EnvError) and error.stage in ("limits", "contract")
    _, error = play(program("hostile/lying_tool_results"), "x")
    assert error.stage == "contract" and "not Results" in error.detail


def test_all_else_in_info_stays_behind():
    value = ("x", 0.0, False, False, {"tool_results": [], "malformed": True, "secret": object()})
    assert contract.check_step(value, LIMIT) == ("x", 0.0, False, False, None, True)


@pytest.mark.parametrize("tools", ["[", "[1]", "[" * 5000, '[{"type": "function"}]'])
def test_a_child_cannot_send_tools_that_are_none(tools):
    with pytest.raises(ProtocolError):
        check_answer(protocol.Reset(1, 5, 0), protocol.Started(1, "go", tools), Limits())


def test_a_child_cannot_send_more_than_an_observation_holds():
    step = protocol.Stepped(1, "", 0.0, False, False, ("x" * 40_000,) * 2)
    with pytest.raises(ProtocolError, match="80000 bytes"):
        check_answer(protocol.Step(1, 5, "go"), step, Limits())
    with pytest.raises(ProtocolError, match="bytes"):
        check_answer(protocol.Reset(1, 5, 0), protocol.Started(1, "", "[" * 70_000), Limits())
