"""Verdicts on tool-use programs: the examples of the README, and one program for every rule."""

import json
import re
from pathlib import Path

import pytest

from sandbox_runner import validate
from sandbox_runner.validation import probes, tool_probes
from tests.sandbox_runner.shop import schema

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
    "a tool makes too much with every call": (
        {
            "parameters": "{'properties': {'item': {}, 'n': {'type': 'integer'}}}",
            "tool": "if n < 10**8: [any([False] * n) for _ in range(3)]",
            "signature": "item, n=1",
        },
        "limits",
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


def test_schemas_tell_all_but_names_of_tools_and_choices_of_several():
    parts = {
        "kind": {"enum": ["red", "blue"], "description": "its colour"},
        "sort": {"enum": ["plain"], "enum_of": {"enum": {"a": 1}}},
    }
    tools = json.dumps([schema(description="of a lamp", parameters={"properties": parts})])
    assert tool_probes.texts(tools) == [
        "description", "of a lamp", "parameters", "properties",
        "kind", "enum", "description", "its colour",
        "sort", "enum", "plain", "enum_of", "enum", "a", "1",
    ]  # fmt: skip
    assert tool_probes.texts("") == []


def test_tools_are_swept_in_replies_of_bounded_size_and_the_end_is_an_answer():
    choices = {"a": {"enum": list(range(9))}, "b": {"type": "boolean"}, "c": {"type": "string"}}
    tools = (schema(parameters={"properties": choices}), schema("g"))
    *calls, done = tool_probes.policies(tools, 6)["sweep"][:3]
    assert [reply.count("<tool_call>") for reply in calls] == [16, 3]
    assert calls[0].count("true") == 8
    assert calls[1].endswith(done) and done == "<answer>done</answer>"
    wide = tuple(schema(f"f{n}", parameters={"properties": choices}) for n in range(64))
    for turns in (1, 2, 12):
        swept = tool_probes.policies(wide, turns)["sweep"]
        assert len(swept) == turns and max(reply.count("<tool_call>") for reply in swept) == 16
        assert any("<answer>" in reply for reply in swept)


PAY = """
class PayEnv(MultiTurnToolUseEnv):
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.begin()
        names = ["ada", "bob", "eve", "kim", "lea"]
        self.wanted = rng.sample(names, 2)
        {choices}
        self._tools = {{"pay": {{"parameters": {{"properties": {{"who": {{"enum": names}}}}}}}}}}
        self._user_messages = [f"Pay {{name}}." for name in self.wanted]
        self._message_criteria = [lambda state, name=name: {criterion} for name in self.wanted]
    def tool_pay(self, who):
        self._state.setdefault("paid", []).append(who)
        return "paid"
    def solution(self):
        calls = [json.dumps({{"name": "pay", "arguments": {{"who": n}}}}) for n in self.wanted]
        return "\\n".join(f"<tool_call>{{c}}</tool_call>\\n<answer>done</answer>" for c in calls)
"""


@pytest.mark.parametrize(
    ("choices", "criterion", "reason"),
    [
        ("", "name in state.get('paid', [])", "all its choices wins on 100%"),
        ("names = [*self.wanted, 'x']", "self.wanted[0] in state.get('paid', [])", "first choices"),
        ("", "state.get('paid', [])[-1:] == [name]", None),
    ],
)
def test_a_policy_that_only_reads_the_schemas_must_not_win(pool, choices, criterion, reason):
    (verdict,) = validate(pool, [PAY.format(choices=choices, criterion=criterion)])
    assert verdict.stage == (reason and "trivial") and (reason or "") in verdict.reason


MANY = """
class ManyEnv(ToolUseEnv):
    def reset(self, seed=None):
        self.begin()
        self._expected_answer = str(random.Random(seed).randint(100, 999)) + " a" * 200
        numbers = list(range({start}, {start} + 2000))
        self._tools = {{"look": {{"parameters": {{"properties": {{}}, "numbers": numbers}}}}}}
        return "Which word?", {{}}
    def tool_look(self):
        return self._expected_answer
    def solution(self):
        return f"<tool_call>{{CALL}}</tool_call>\\n<answer>{{self._expected_answer}}</answer>"
CALL = '{{"name": "look", "arguments": {{}}}}'
"""


@pytest.mark.parametrize("start", ["1000", "seed * 2000"])
def test_a_schema_of_many_parts_is_looked_through_as_one_text(pool, monkeypatch, start):
    flattened = []
    flat = probes._flat
    monkeypatch.setattr(probes, "_flat", lambda *args: flattened.append(args) or flat(*args))
    (verdict,) = validate(pool, [MANY.format(start=start)])
    assert verdict.accepted, verdict.reason
    assert len(flattened) == 2 * 3 * 8  # of each seed, three texts and the answer with each
    assert sum(len(text) for text, _ in flattened) < 8 * 30_000


def test_what_the_schemas_of_all_seeds_say_tells_nothing(pool):
    """The choices stand in the description, whatever the answer is."""
    words = {"description": "'one of amber, green, black, white, brown'"}
    answer = "self._expected_answer = rng.choice(['amber', 'green', 'black', 'white', 'brown'])"
    (verdict,) = validate(pool, [TASK.format(**TASK_PARTS | words | {"reset": answer})])
    assert verdict.accepted, verdict.reason


@pytest.mark.parametrize("more", ["self._expected_answer: {}", "'a': {'enum': [answer]}"])
def test_a_name_of_an_argument_and_the_only_choice_tell(pool, more):
    late = "answer = self._expected_answer; self._tools['price']['parameters'] = "
    late += f"{{'properties': {{'item': {{}}, {more}}}}}"
    parts = TASK_PARTS | {"reset": late, "signature": "item, **more"}
    (verdict,) = validate(pool, [TASK.format(**parts)])
    assert verdict.stage == "leak" and "a tool's description" in verdict.reason


def test_a_program_whose_texts_no_frame_holds_stops_no_other(pool):
    """A policy repeats a name of 54 kB, in JSON, in 60 turns of each seed."""
    late = "self._tools['price']['parameters']['properties']['\\x1f' * 9_000] = {}"
    wide = TASK.format(**TASK_PARTS | {"reset": late, "signature": "item, **more"})
    verdict, other = validate(pool, [wide, TASK.format(**TASK_PARTS)], max_turns=60)
    assert verdict.stage == "limits" and "too long to play" in verdict.reason
    assert other.accepted
