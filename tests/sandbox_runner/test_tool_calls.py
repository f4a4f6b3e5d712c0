import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_runner.tool_calls import MalformedCall, ToolCall, split_reply

GOOD = '<tool_call>\n{"name": "move", "arguments": {"n": 3}}\n</tool_call>'
MOVE = ToolCall("move", {"n": 3})

tricky = st.lists(
    st.sampled_from(["<tool_call>", "</tool_call>", "{", "}", '"', "\\", "\n", "é", "\ud800", "x"])
).map("".join)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), tricky),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tricky, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(tricky, values, max_size=4)
prose = st.text('ab<>/{}"\\\n', max_size=20)


def spelled(call, as_text=False):
    arguments = json.dumps(call.arguments) if as_text else call.arguments
    body = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


@given(calls=st.lists(st.builds(ToolCall, tricky.filter(bool), objects), max_size=4),
       around=st.lists(prose, min_size=5, max_size=5), as_text=st.booleans())  # fmt: skip
def test_calls_among_prose_are_found_whatever_their_strings_hold(calls, around, as_text):
    outside = [*around[: len(calls)], around[-1]]
    pieces = [text for call, before in zip(calls, around, strict=False)
              for text in (before, spelled(call, as_text))]  # fmt: skip
    assert split_reply("".join([*pieces, around[-1]])) == (calls, "".join(outside))


fragments = st.sampled_from(
    ["<tool_call>", "</tool_call>", '{"name":', '"', "{}", "[", "}", "\\", "1", '"arguments":']
)


@given(text=st.lists(fragments, max_size=30))
def test_any_text_is_read_without_an_error(text):
    joined = "".join(text)
    found, _ = split_reply(joined)
    assert len(found) <= joined.count("<tool_call>")
    assert bool(found) == ("<tool_call>" in joined)


@given(broken=st.text('ab{}[]:,"\\', max_size=12))
def test_a_broken_call_does_not_hide_the_next(broken):
    found, _ = split_reply(f"<tool_call>{broken}</tool_call> then {GOOD}")
    assert len(found) == 2
    assert isinstance(found[0], MalformedCall)
    assert found[0].text == broken
    assert found[1] == MOVE


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "not JSON: Expecting value at character 0"),
        ("{'name': 'f'}", "not JSON"),
        ('{"name": "f", "arguments": {}', "not JSON"),
        ('{"name": "f", "arguments": {}} and more', "not JSON: Extra data"),
        ('{"name": "f", "arguments": {"x": NaN}}', "NaN is no number"),
        ('{"name": "f", "arguments": {"x": 1e999}}', "too large"),
        ('{"name": "f", "arguments": {"x": ' + "9" * 9999 + "}}", "not JSON"),
        ("[" * 99_999, "nests too deeply"),
        ("[1]", "a JSON object, not list"),
        ('"f"', "a JSON object, not str"),
        ("{}", "no name"),
        ('{"name": "f"}', "no arguments"),
        ('{"name": 7, "arguments": {}}', "name is 7, expected text"),
        ('{"name": "", "arguments": {}}', "name is '', expected text"),
        ('{"name": "f", "arguments": [1]}', "arguments should be a JSON object, not list"),
        ('{"name": "f", "arguments": null}', "arguments should be a JSON object, not NoneType"),
        ('{"name": "f", "arguments": "{"}', "arguments' text is not JSON"),
        ('{"name": "f", "arguments": "[1]"}', "arguments should be a JSON object, not list"),
    ],
)
def test_what_is_no_call_is_named(body, reason):
    (call,), _ = split_reply(f"<tool_call>{body}</tool_call>")
    assert isinstance(call, MalformedCall)
    assert call.text == body
    assert reason in call.reason


@pytest.mark.parametrize("body", ['{"name": "f", "arguments": {}}', '{"name": "f', "", "{"])
@pytest.mark.parametrize("after", ["", " and prose", GOOD])
def test_an_unclosed_call_is_named_and_ends_at_the_next(body, after):
    (first, *others), _ = split_reply(f"<tool_call>{body}{after}")
    rest = "" if after == GOOD else after
    assert first == MalformedCall(body + rest, "it has no </tool_call>")
    assert others == ([MOVE] if after == GOOD else [])


def test_no_call_is_no_error():
    for text in ("</tool_call> {} tool_call", ""):
        assert split_reply(text) == ([], text)


@pytest.mark.parametrize(
    "piece",
    ["<tool_call>", '<tool_call>"', '<tool_call>\\"', '<tool_call>"\\"', "</tool_call>", '"',
     '<tool_call>{"', '<tool_call>["a","', "<tool_call>{}</tool_call>\n", "<tool_call></tool_call>",
     '<tool_call>{"</tool_call>', "<tool_call>{<", "<", "<tool_call"],
)  # fmt: skip
def test_hostile_text_takes_no_more_than_linear_time(piece):
    text = piece * (500_000 // len(piece))
    start = time.process_time()
    split_reply(text)
    assert time.process_time() - start < 2.0
