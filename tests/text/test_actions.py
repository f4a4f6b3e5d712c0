import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_jax.text import (
    Design,
    ParseProblem,
    after_code,
    after_thinking,
    canonical_action,
    code_block,
    last_boxed,
    parse_design,
)
from spade_jax.text.actions import MOST_ACTION

CODE = "class AEnv:\n    pass\n"


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (r"\boxed{7}", "7"),
        (r"first \boxed{1}, no: \boxed{2} it is", "2"),
        (r"\boxed{ left door }", "left door"),
        (r"\boxed{}", ""),
        ("\\boxed{two\nlines}", "two\nlines"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{{{a}}}", "{{a}}"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed{a \boxed{b} c}", "b"),
        (r"} \boxed{1} }", "1"),
        (r"{ \boxed{1}", "1"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\boxed{1} then \boxed{2 {3}", "1"),
        (r"\boxed{{1}", None),
        (r"\boxed{", None),
        (r"\boxed 7", None),
        (r"boxed{7}", None),
        ("\boxed{7}", None),  # a backspace, as a Python string without r"" has it
        ("", None),
    ],
)
def test_last_boxed(text, inside):
    assert last_boxed(text) == inside


@given(text=st.text("\\boxed{} a1"), inside=st.text("{}ab\\ "))
def test_a_balanced_box_at_the_end_is_always_the_one_found(text, inside):
    depth, lowest = 0, 0
    for character in inside:
        depth += {"{": 1, "}": -1}.get(character, 0)
        lowest = min(lowest, depth)
    if depth == 0 and lowest == 0:
        assert last_boxed(text + r"\boxed{" + inside + "}") == inside.strip()


@given(text=st.text("\\boxed{} a1"))
def test_the_canonical_action_of_a_canonical_action_is_itself(text):
    assert canonical_action(canonical_action(text)) == canonical_action(text)


def test_an_action_is_boxed_alone_or_is_the_whole_reply():
    assert canonical_action(r"I think \boxed{ 5 } wins.") == r"\boxed{5}"
    assert canonical_action("I think 5 wins.\n") == "I think 5 wins.\n"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("no thought at all\n", "no thought at all\n"),
        ("<think>\nhm\n</think>\n\nleft", "left"),
        ("opened in the prompt</think> left ", " left "),
        ("<think>a</think>left<think>b</think>right", "right"),
        ("<think>never closed \\boxed{1}", ""),
        ("\\boxed{1} <think>and again", ""),
        ("<think>a</think>\\boxed{1}<think>b", ""),
        ("", ""),
    ],
)
def test_a_reply_says_what_follows_its_last_thought(reply, said):
    assert after_thinking(reply) == said


def test_what_was_only_thought_is_no_action():
    assert canonical_action(r"<think>\boxed{1}</think>\boxed{2}") == r"\boxed{2}"
    assert canonical_action(r"<think>\boxed{1}</think>I pass.") == "I pass."
    assert canonical_action(r"<think>maybe \boxed{1}") == ""


def test_tool_use_gets_the_reply_whole():
    reply = r'I look. <tool_call>{"name": "f", "arguments": {"a": "\boxed{1}"}}</tool_call>'
    assert canonical_action(reply, tool_use=True) == reply
    assert canonical_action(f"<think>\n\n</think>\n\n{reply}", tool_use=True) == reply


def test_an_endless_reply_is_cut():
    assert canonical_action("x" * (17 << 20)) == "x" * MOST_ACTION
    assert canonical_action(r"\boxed{" + "1" * MOST_ACTION + "}") == r"\boxed{" + "1" * 99_993
    assert canonical_action("y" * MOST_ACTION + r"\boxed{1}") == r"\boxed{1}"


@pytest.mark.parametrize(
    "hostile",
    ["<think>" * 20_000, "</think>" * 20_000, "<think></think>" * 10_000,
     r"\boxed{" * 20_000, "{" * 100_000, "}" * 100_000, "```" + "a" * 100_000 + "`",
     "```python\n" * 10_000, " " * 100_000, "```\n" * 25_000, ("```\n" + "class" * 9) * 2_000],
)  # fmt: skip
def test_hostile_text_takes_no_more_than_linear_time(hostile):
    start = time.process_time()
    last_boxed(hostile)
    canonical_action(hostile)
    parse_design(hostile)
    assert time.process_time() - start < 20.0  # a quadratic one takes minutes


@pytest.mark.parametrize("label", ["", "python", "Python", "py", "python3", " python", "py a=1"])
def test_a_fenced_class_is_the_code_whatever_its_label(label):
    text = f"Here it is.\n```{label}\n{CODE}```\nHint: look\n"
    assert code_block(text) == CODE
    assert after_code(text) == "\nHint: look\n"


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        f"```python\n{CODE}",
        "```python\nx = 1\n```\n",
        f"```json\n{CODE}```\n",
        f"`` `python\n{CODE}```\n",
        f"```python\n{CODE}``",
        "```python\nsubclass = 1\n```",
        "",
    ],
)
def test_no_complete_python_block_with_a_class_is_no_code(text):
    assert code_block(text) is None
    assert after_code(text) == ""
    problem = parse_design(text)
    assert isinstance(problem, ParseProblem)
    assert problem.stage == "parse"
    assert str(len(text)) in problem.detail


def test_the_last_block_with_a_class_wins_and_others_are_passed_over():
    draft, final = CODE, CODE.replace("AEnv", "BEnv")
    text = f"```python\n{draft}```\nBetter:\n```python\n{final}```\nRun:\n```bash\nls\n```\n"
    assert code_block(text) == final
    assert after_code(text).startswith("\nRun:")


def test_a_block_that_was_begun_again_is_read_from_its_second_start():
    assert code_block(f"```python\nclass Wro\n```python\n{CODE}```\n") == CODE


def test_source_keeps_every_character_of_its_lines():
    source = '\nclass AEnv:\r\n\tx = "`` {}"  \n\n'
    assert code_block(f"```python\n{source}```") == source


def test_parse_design_joins_the_hint_to_one_line():
    text = f"```python\n{CODE}```\n\nHint: Halve the range\n  each time.\n"
    assert parse_design(text) == Design(CODE, "Halve the range each time.")


@pytest.mark.parametrize("tail", ["", "\n", "\nHint:", "\nHint:  \n", "\nA Hint: no", "\nhint: no"])
def test_a_design_without_a_hint_line_has_no_hint(tail):
    assert parse_design(f"Hint: early\n```\n{CODE}```{tail}") == Design(CODE, None)


def test_a_design_that_was_only_thought_is_none():
    draft, final = CODE, CODE.replace("AEnv", "BEnv")
    thought = f"<think>\n```python\n{draft}```\nHint: no\n"
    reply = f"```python\n{final}```\nHint: look"
    assert parse_design(f"{thought}</think>\n\n{reply}") == Design(final, "look")
    assert isinstance(parse_design(thought + reply), ParseProblem)
