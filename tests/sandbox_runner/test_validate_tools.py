"""Verdicts on tool-use programs: the examples of the README, and one program for every rule."""

import json
import re
from pathlib import Path

import pytest

from sandbox_runner import validate
from sandbox_runner.validation import probes, tool_probes
from tests.sandbox_runner.test_tool_steps import schema

README = Path(__file__).resolve().parents[2] / "sandbox_runner" / "README.md"
EXAMPLES = re.findall(r"```python\n(class .*?)```", README.read_text(), re.DOTALL)

TASK = """
class TaskEnv(ToolUseEnv):
    {shared}
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.begin()
        self._state = {{"pen": rng.randint(100, 999), "cup": rng.randint(100, 999)}}
        self._expected_answer = str(2 * self._state["pen"] + self._state["cup"])
        self._tools = {{"price": {{"description": {description}, "parameters": {parameters}}}}}
        {reset}
        return {first}, {{}}
    def tool_price(self, {signature}):
        {tool}
        return {{"price": self._state[item]}}
    def solution(self):
        calls = [json.dumps({{"name": "price", "arguments": {{"item": i}}}}) for i in self._state]
        lines = [f"<tool_call>{{call}}</tool_call>" for call in calls]
        return "\\n".join([*lines, f"<answer>{{{answer}}}</answer>"])
"""
TASK_PARTS = {
    "shared": "pass",
    "description": "'The price of an item in cents.'",
    "parameters": "{'type': 'object', 'properties': {'item': {'type': 'string'}}}",
    "reset": "pass",
    "first": "'What do two pens and a cup cost, in cents?'",
    "signature": "item",
    "tool": "pass",
    "answer": "self._expected_answer",
}
TASKS = {
    "plain": ({}, None),
    "no such method": ({"reset": "self._tools['stock'] = {'description': 'pieces'}"}, "contract"),
    "parameters are text": ({"parameters": "'item: string'"}, "contract"),
    "tools in another form": ({"shared": "def get_tools(self): return {'price': 1}"}, "contract"),
    "tools need an argument": ({"shared": "def get_tools(self, x): return []"}, "contract"),
    "tools raise": ({"shared": "def get_tools(self): return [self.missing]"}, "robustness"),
    "the order of a set": ({"description": "' '.join({'red', 'green', 'blue'})"}, "determinism"),
    "a tool tells the clock": ({"tool": "return str(time.time())"}, "determinism"),
    "a tool counts on the class": (
        {"shared": "n = [0]", "tool": "self.n[0] += 1; return self.n[0]"}, "isolation"
    ),
    "the prices are on the class": (
        {
            "shared": "prices = {}",
            "reset": "self.prices.clear(); self.prices.update(self._state)",
            "tool": "return self.prices[item]",
        },
        "isolation",
    ),
    "a tool hangs on what it was not made for": (
        {"tool": "\n        while item not in self._state: pass"}, "limits"
    ),
    "a tool counts as far as it is told": (
        {
            "parameters": "{'properties': {'item': {}, 'n': {'type': 'integer'}}}",
            "tool": "[None for _ in range(n)]",
            "signature": "item, n=1",
        },
        "limits",
    ),
    "a tool makes as much as it is told": (
        {
            "parameters": "{'properties': {'item': {}, 'n': {'type': 'integer'}}}",
            "tool": "'.' * n * 1000",
            "signature": "item, n=1",
        },
        None,
    ),
    "a tool leaves the process": ({"tool": "if item not in self._state: exit()"}, "robustness"),
    "solution is wrong": ({"answer": "self._state['pen']"}, "solution"),
    "no call works": ({"tool": "item = self.items[item]"}, "solution"),
    "one task": ({"reset": "self._state = {'pen': 1}; self._expected_answer = '1'"}, "constant"),
    "the answer is always 0": (
        {"reset": "self._expected_answer = '0'", "first": "f'{self._state} minus itself?'"},
        "trivial",
    ),
    "few answers": ({"reset": "self._expected_answer = str(self._state['pen'] // 600)"}, "trivial"),
    "the question tells": ({"first": "f'Say {self._expected_answer}.'"}, "leak"),
    "the tool tells": ({"description": "f'It is {self._expected_answer}.'"}, "leak"),
}

REQUESTS = """
class RequestsEnv(MultiTurnToolUseEnv):
    {shared}
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.begin()
        self.wanted = [(f"lamp{{rng.randint(100, 999)}}", rng.randint(2, 9)) for _ in range(3)]
        self._tools = {{"dim": {{"description": "Dim a lamp.", "parameters": {{"type": "object",
            "properties": {{"lamp": {{"type": "string"}}, "level": {{"type": "integer"}}}}}}}}}}
        self._user_messages = [f"Dim {{lamp}} to {{level}}." for lamp, level in self.wanted]
        self._message_criteria = [
            lambda state, lamp=lamp, level=level: {criterion} for lamp, level in self.wanted
        ]
        {reset}
        {returned}
    def tool_dim(self, lamp="all", level=1):
        self._state[lamp] = level
        return "done"
    def solution(self):
        lines = []
        for lamp, level in self.wanted:
            call = json.dumps({{"name": "dim", "arguments": {{"lamp": lamp, "level": level}}}})
            lines += [f"<tool_call>{{call}}</tool_call>", "<answer>done</answer>"]
        return "\\n".join(lines)
"""
REQUESTS_PARTS = {
    "shared": "pass",
    "criterion": "state.get(lamp) == level",
    "reset": "pass",
    "returned": "return self._user_messages[0], {}",
}
SEVERAL = {
    "plain": ({}, None),
    "reset returns nothing": ({"returned": "pass"}, None),
    "the first message is the answer's word": ({"returned": "return 'Then say done.', {}"}, None),
    "reads a key that is not there": ({"criterion": "state[lamp] == level"}, "contract"),
    "a criterion too few": ({"reset": "self._message_criteria.pop()"}, "contract"),
    "one message": ({"reset": "del self._user_messages[1:]"}, "contract"),
    "nothing to do at first": ({"criterion": "state.get(lamp, level) == level"}, "trivial"),
    "any call will do": ({"criterion": "bool(state)"}, "trivial"),
    "the criterion raises later": (
        {"criterion": "state.get(lamp) == level and state['gone']"}, "solution"
    ),
    "the criterion cannot compare every level": (
        {"criterion": "state.get(lamp, 0) / 1 == level"}, None
    ),
    "the criterion counts up to what was set": (
        {"criterion": "all(i < n for n in state.values() for i in range(n)) and lamp in state"},
        "limits",
    ),
    "the requests tell the calls": ({"returned": "return self.solution(), {}"}, "leak"),
}

OWN = """
class OwnEnv:
    def __init__(self, max_turns=8):
        self.max_turns = max_turns
    def get_tools(self):
        return [{{"type": "function", "function": {{"name": "look", "parameters": {{}}}}}}]
    def reset(self, seed=None):
        self.turn, self.code = 0, str(random.Random(seed).randint(1000, 9999))
        return "Which code?", {{}}
    def step(self, action):
        calls = re.findall("<tool_call>(.*?)</tool_call>", action, re.DOTALL)
        {counts}self.turn += 1
        cut = self.turn >= self.max_turns
        if self.code in action:
            return "Yes.", 1.0, True, False, {{}}
        results = []
        for call in calls:
            {call}
            results.append(self.code if {asked} else {error})
        return "\\n".join(results) or "No.", 0.0, False, cut, {{"tool_results": results}}
    def solution(self):
        return f"<answer>{{self.code}}</answer>"
"""
OWN_PARTS = {"counts": "", "call": "pass", "asked": "'look' in call", "error": "'No tool.'"}
OWNS = {
    "plain": ({}, None),
    "parses without care": ({"call": "json.loads(call)"}, "robustness"),
    "trusts the name": ({"asked": "{'look': 1, 'no_such_tool': 0}[call[10:14]]"}, "robustness"),
    "echoes what it was told": ({"asked": "'{}' in call", "error": "call * 999"}, "limits"),
    "calls are free": ({"counts": "if not calls: "}, "termination"),
    "a wrong call tells": ({"error": "f'Not this, but {self.code}'"}, "leak"),
}
MADE = {
    (kind, name): (template.format(**parts | changes), stage)
    for kind, template, parts, programs in (
        ("task", TASK, TASK_PARTS, TASKS),
        ("requests", REQUESTS, REQUESTS_PARTS, SEVERAL),
        ("own", OWN, OWN_PARTS, OWNS),
    )
    for name, (changes, stage) in programs.items()
}


@pytest.fixture(scope="module")
def verdicts(pool):
    sources = {key: source for key, (source, _) in MADE.items()} | dict(enumerate(EXAMPLES))
    return dict(zip(sources, validate(pool, list(sources.values())), strict=True))


@pytest.mark.parametrize(("kind", "name"), MADE)
def test_made_verdict(verdicts, kind, name):
    verdict = verdicts[kind, name]
    assert verdict.stage == MADE[kind, name][1], verdict.reason


def test_the_examples_of_the_readme_are_sound(verdicts):
    assert len(EXAMPLES) == 2
    for number in range(len(EXAMPLES)):
        found = verdicts[number]
        assert found.accepted and found.shareable, found
        assert found.measurements["win_solution"] == 1.0
        assert found.measurements["win_calls"] == found.measurements["win_no_answer"] == 0.0


def test_reasons_name_the_cause(verdicts):
    reasons = {key: verdict.reason for key, verdict in verdicts.items()}
    assert "'stock'" in reasons["task", "no such method"]
    assert "KeyError" in reasons["requests", "reads a key that is not there"]
    assert "arbitrary calls" in reasons["own", "calls are free"]
    assert "a tool's description" in reasons["task", "the tool tells"]
    assert "calling every tool" in reasons["requests", "any call will do"]
    assert "bound their work" in reasons["task", "a tool counts as far as it is told"]


def test_a_program_without_tools_is_not_tried_with_calls(pool, program):
    """Its verdict and what was played do not depend on there being tools at all."""
    (verdict,) = validate(pool, [program("sound/guess_number")])
    assert not {"win_calls", "win_wrong", "win_zero", "win_no_answer"} & set(verdict.measurements)


def test_calls_and_answers_may_go_over_several_lines():
    text = "<tool_call>\n{}\n</tool_call>\n<answer>a\n\nb</answer>\n\nleft\n<answer>\nopen"
    assert probes.solution_lines(text) == [
        "<tool_call>\n{}\n</tool_call>", "<answer>a\n\nb</answer>", "left", "<answer>\nopen"
    ]  # fmt: skip
    assert probes.solution_lines(" go north \n\n take") == ["go north", "take"]


@pytest.mark.parametrize("properties", [None, [], {}, {"a": None, "b": {"type": ["x"], "enum": 3}}])
def test_probes_are_made_of_any_schema(properties):
    tools = (schema(parameters={"properties": properties}), schema("g"))
    assert all(isinstance(reply, str) for reply in tool_probes.replies(tools))
    assert len(tool_probes.call_episode(tools, 20)) == 20


def test_a_description_tells_and_a_choice_does_not():
    kinds = {"kind": {"type": "string", "enum": ["red", "blue"], "description": "its colour"}}
    tools = json.dumps([schema(description="of a lamp", parameters={"properties": kinds})])
    assert tool_probes.texts(tools) == ["of a lamp", "its colour"]
