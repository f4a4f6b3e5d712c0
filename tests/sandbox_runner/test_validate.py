"""Verdicts: the programs of the manifest, and one program for every rule it does not cover."""

import json
from pathlib import Path

import pytest

from sandbox_runner import validate
from sandbox_runner.validation import probes, stages

DATA = Path(__file__).parent / "data"
MANIFEST = json.loads((DATA / "manifest.json").read_text())

TEMPLATE = """
class MadeEnv:
    {shared}
    def __init__(self, max_turns=6):
        self.max_turns = max_turns
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.t, self.answer = 0, rng.randint(1000, 9999)
        {reset}
        return {first}, {{}}
    def solution(self):
        return {solution}
    def step(self, action):
        self.t += 1
        {step}
        if str(self.answer) in action:
            return {win}, 1.0, True, False, {{}}
        return {reply}, 0.0, {end}, self.t >= self.max_turns, {{}}
"""
PARTS = {
    "shared": "pass",
    "reset": "pass",
    "first": "f'{self.answer * 3} is three times the code. Reply with the code in a box.'",
    "solution": "str(self.answer)",
    "step": "pass",
    "win": "'Yes.'",
    "reply": "'No.'",
    "end": "False",
}
MADE = {
    "plain": ({}, None),
    "echoes whole actions": ({"reply": "action"}, "limits"),
    "counts on the class": (
        {"shared": "n = 0", "reset": "MadeEnv.n += 1", "first": "str(MadeEnv.n)"},
        "isolation",
    ),
    "order of a set": (
        {"first": "' '.join({'red', 'green', 'blue', str(self.answer * 3)})"},
        "determinism",
    ),
    "random never seeded by the program": (
        {"reset": "self.answer = random.randint(1000, 9999)"}, None
    ),
    "draws of its own": (
        {"reset": "self.answer = random.Random().randint(0, 10**12)"}, "determinism"
    ),
    "entropy only on a win": ({"win": "str(random.SystemRandom().random())"}, "determinism"),
    "the clock": ({"reply": "f'No, at {time.time()}.'"}, "determinism"),
    "one task": ({"reset": "self.answer = 4321"}, "constant"),
    "few tasks": ({"reset": "self.answer = 4321 if seed != 3 else 1234"}, "trivial"),
    "states the answer when wrong": (
        {"reply": "f'No, not {self.answer - 1} but {self.answer}.'"},
        "leak",
    ),
    "states the answer at the end": ({"reply": "f'It was {self.answer}.'", "end": "True"}, None),
    "sleeps": ({"step": "time.sleep(60)"}, "limits"),
    "solution is a number": ({"solution": "self.answer"}, "contract"),
    "solution raises": ({"solution": "self.missing"}, "robustness"),
    "solution in its own box": ({"solution": r"f'\\boxed{{{self.answer}}}'"}, None),
    "long answer on several lines": ({"solution": "f'1\\n2\\n{self.answer}'"}, None),
    "raises on the second turn": ({"step": "1 / (self.t - 2)"}, "robustness"),
}
TOOLS = '''
class ShopEnv(ToolUseEnv):
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._call_history = 0, []
        self._tools = {"price": {"description": "price of an item", "parameters": {}}}
        self._state = {"pen": rng.randint(100, 999)}
        self._expected_answer = str(2 * self._state["pen"])
        return "What do two pens cost? Tools: price(item)", {}
    def tool_price(self, item):
        return {"price": self._state[item]}
    def solution(self):
        call = json.dumps({"name": "price", "arguments": {"item": "pen"}})
        return f"<tool_call>{call}</tool_call>\\n<answer>{self._expected_answer}</answer>"
'''
DIALECTS = {
    "dataclasses and enums": """
class Side(Enum):
    LEFT = auto()
    RIGHT = auto()

@dataclass
class State:
    side: Side
    turns: int = 0
    seen: List[str] = field(default_factory=list)

class DoorEnv:
    max_turns = 6
    def reset(self, seed: Optional[int] = None) -> Tuple[str, Dict]:
        rng = random.Random(seed)
        self.state = State(rng.choice(list(Side)))
        self.key = f"{self.state.side.name.lower()} {rng.randint(100, 999)}"
        return f"Say it backwards: {self.key[::-1]}.", {}
    def solution(self) -> str:
        return self.key
    def step(self, action: str):
        self.state.turns += 1
        self.state.seen.append(action)
        match = re.search(r"boxed\\{(.*)\\}", action)
        if match and match.group(1) == self.key:
            return "Open.", 1, True, False, asdict(self.state)
        return "Shut.", 0, False, self.state.turns >= self.max_turns, {}
""",
    "both flags at the end": """
class SumEnv:
    def __init__(self, max_turns=4):
        self.max_turns = max_turns
    def reset(self, seed=None):
        random.seed(seed)
        self.turn, self.terms = 0, [random.randint(10, 99) for _ in range(3)]
        return "Add: " + ", ".join(map(str, self.terms)), {}
    def solution(self):
        return str(sum(self.terms))
    def step(self, action):
        self.turn += 1
        right = str(sum(self.terms)) in action
        over = right or self.turn >= self.max_turns
        return "Right." if right else "Wrong.", np.float64(right), np.bool_(over), over, {}
""",
    "several requests with tools": """
class LampEnv(MultiTurnToolUseEnv):
    def reset(self, seed=None):
        self.begin()
        rng = random.Random(seed)
        self._tools = {"set": {"description": "set a lamp", "parameters": {"type": "object"}}}
        self.wanted = [(f"lamp{rng.randint(100, 999)}", rng.randint(1, 9)) for _ in range(3)]
        self._user_messages = [f"Please set {lamp} to {v}." for lamp, v in self.wanted]
        self._message_criteria = [
            lambda state, lamp=lamp, v=v: state.get(lamp) == v for lamp, v in self.wanted
        ]
        return self._user_messages[0], {}
    def tool_set(self, lamp, value):
        self._state[lamp] = value
        return "done"
    def solution(self):
        lines = []
        for lamp, value in self.wanted:
            call = json.dumps({"name": "set", "arguments": {"lamp": lamp, "value": value}})
            lines += [f"<tool_call>{call}</tool_call>", "<answer>done</answer>"]
        return "\\n".join(lines)
""",
}


@pytest.fixture(scope="module")
def verdicts(pool):
    """All programs of this file validated at once, by name."""
    sources = {name: (DATA / name).read_text() for name in MANIFEST}
    sources |= {name: TEMPLATE.format(**PARTS | parts) for name, (parts, _) in MADE.items()}
    sources["tools"] = TOOLS
    sources |= DIALECTS
    return dict(zip(sources, validate(pool, list(sources.values())), strict=True))


@pytest.mark.parametrize("name", MANIFEST)
def test_manifest_verdict(verdicts, name):
    verdict = verdicts[name]
    assert (verdict.stage or "accept") == MANIFEST[name]["verdict"], verdict.reason


@pytest.mark.parametrize("name", MADE)
def test_made_verdict(verdicts, name):
    verdict = verdicts[name]
    assert verdict.stage == MADE[name][1], verdict.reason


@pytest.mark.parametrize("name", ["tools", *DIALECTS])
def test_sound_programs_of_every_dialect_are_accepted(verdicts, name):
    assert verdicts[name].accepted, verdicts[name]


def test_accepted_means_no_stage_no_reason_and_shareable(verdicts):
    for verdict in verdicts.values():
        assert verdict.accepted == (verdict.stage is None) == (verdict.reason == "")
        assert "\n" not in verdict.reason
        assert verdict.shareable or not verdict.accepted


def test_programs_that_disturb_each_other_are_not_shareable(verdicts):
    assert not verdicts["counts on the class"].shareable
    assert verdicts["states the answer when wrong"].shareable


def test_measurements_say_how_it_was_solved(verdicts):
    found = verdicts["sound/annotations_without_imports.py"].measurements
    assert (found["win_solution"], found["solution_turns"]) == (1.0, 4.0)
    assert found["win_empty"] == found["win_word"] == found["win_format"] == 0.0
    assert verdicts["unsound/anything_wins.py"].measurements["win_empty"] == 1.0
    assert found["observation_chars_max"] >= found["observation_chars_mean"] > 0


def test_programs_that_answer_alike_have_one_behaviour(pool):
    source = TEMPLATE.format(**PARTS)
    renamed = source.replace("MadeEnv", "OtherEnv").replace("self.answer", "self.code")
    other = source.replace("'No.'", "'Not this.'")
    found = validate(pool, [source, renamed, other, "class A("], max_turns=6)
    same, again, differs, none = [verdict.behaviour for verdict in found]
    assert same == again != differs and len(same) == 16
    assert none == ""


def test_the_turn_budget_is_part_of_the_verdict(pool):
    source = TEMPLATE.format(**PARTS | {"reset": "self.max_turns = 9"})
    short, long = validate(pool, [source], 8), validate(pool, [source], 9)
    assert (short[0].stage, long[0].stage) == ("termination", None)


def test_nothing_to_validate(pool):
    assert validate(pool, []) == []


@pytest.mark.parametrize(
    ("text", "answer", "shown"),
    [
        ("The code is 1234.", "1234", True),
        ("The code is 12345.", "1234", False),
        ("It costs 1234.5 in all.", "1234", False),
        ("The capital is PARIS!", "paris", True),
        ("comparison", "paris", False),
        ("It is 12.", "12", False),
        ("Go left,  up, then right.", "left up", False),
        ("Press 101, 202, 303.", "101\n202\n303", True),
    ],
)
def test_an_answer_is_shown_when_it_stands_as_a_token(text, answer, shown):
    assert probes.shows(text, answer) == shown


@pytest.mark.parametrize(
    ("solution", "has_tools", "secret"),
    [
        (r"\boxed{\frac{1}{2}}", False, r"\frac{1}{2}"),
        ("go north\ntake", False, "go north\ntake"),
        ("<answer>1</answer> <answer> 2 </answer></answer>", False, "2"),
        ("<tool_call>{}</tool_call>\n<answer> 42 </answer>", True, "42"),
        ('<tool_call>"<answer>1</answer>"</tool_call><answer>2</answer>', True, "2"),
        ("<tool_call>{}</tool_call>" + "<answer>done</answer>" * 2, True, None),
    ],
)
def test_the_secret_of_a_solution(solution, has_tools, secret):
    assert probes.secret_of(solution, has_tools) == (solution if secret is None else secret)


def test_lines_become_actions():
    assert probes.as_action("go north") == r"\boxed{go north}"
    for already in (r"\boxed{x}", "<answer>x</answer>", "<tool_call>{}</tool_call>"):
        assert probes.as_action(already) == already


def test_rates_are_those_of_the_rules():
    assert (stages.TRIVIAL_RATE, stages.LEAK_RATE) == (0.5, 0.8)
