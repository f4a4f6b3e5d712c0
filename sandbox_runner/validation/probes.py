"""Actions that validation plays: fixed probes, policies that ignore what they see, solutions."""

from __future__ import annotations

import random
import re

from sandbox_runner.tool_calls import ANSWER, ANSWER_END, CALL, CALL_END, last_answer, split_reply

BOXED_NUMBER = r"\boxed{7}"
PROBES = (
    BOXED_NUMBER,
    r"\boxed{apple}",
    "I am not sure what to do next.",
    r"\boxed{}",
    "",
    "a long reply " * 7_900,  # 100 kB
    "\\boxed{\u039c\u03b5 \u6771\u4eac \u0663 e\u0301 \u200b\u202e \U0001f3b2 \x00}",
)
_WORDS = (
    "river", "orange", "seven", "quickly", "stone", "yellow", "window", "carry", "north",
    "gentle", "ocean", "paper", "silver", "dream", "laugh", "bridge", "candle", "forest",
)  # fmt: skip
_MARKERS = ("\\boxed", CALL, ANSWER)
_BOXED = re.compile(r"\\boxed\s*\{(.*)\}", re.DOTALL)
_MOST_MATCHES = 300  # parts of longer words: a text that repeats an answer so often is made for it
_PAIRS = ((ANSWER, ANSWER_END), (CALL, CALL_END))


def probe_episode(max_turns: int) -> list[str]:
    """All probes in turn, again and again, `max_turns` actions."""
    return [PROBES[turn % len(PROBES)] for turn in range(max_turns)]


def policies(max_turns: int, seed: int) -> dict[str, list[str]]:
    """Actions that no observation has influenced, by the name of the policy.

    "format" knows the form of an action and has nothing to say; "number" puts one and the same
    number into that form.
    """
    rng = random.Random(seed)
    words = [rng.choice(_WORDS) for _ in range(max_turns)]
    forms = (r"\boxed{}", ANSWER + ANSWER_END)
    return {
        "empty": [""] * max_turns,
        "word": [rf"\boxed{{{word}}}" for word in words],
        "format": [forms[turn % 2] for turn in range(max_turns)],
        "number": [r"\boxed{0}"] * max_turns,
    }


def as_action(line: str) -> str:
    """A line of a solution in the form in which an Agent's action arrives."""
    return line if any(marker in line for marker in _MARKERS) else rf"\boxed{{{line}}}"


def solution_lines(text: str) -> list[str]:
    """The actions of a solution; a call or an answer may go over several lines."""
    actions: list[str] = []
    parts: list[str] = []
    still_open = 0
    for line in text.splitlines():
        parts.append(line)
        for opening, closing in _PAIRS:
            still_open += line.count(opening) - line.count(closing)
        if still_open <= 0:
            actions.append("\n".join(parts).strip())
            parts, still_open = [], 0
    return [action for action in (*actions, "\n".join(parts).strip()) if action]


def secret_of(solution: str, has_tools: bool) -> str:
    """What must not be told: a solution's submitted answer, else its one line, else all its lines.

    With tools, several answers only say that several requests are done: then all of it counts.
    """
    _, outside = split_reply(solution)
    if has_tools and outside.count(ANSWER) > 1:
        return solution
    if (answer := last_answer(outside)) is not None:
        return answer.strip()
    boxed = _BOXED.fullmatch(solution.strip())
    return (boxed.group(1) if boxed else solution).strip()


def shows(observation: str, answer: str) -> bool:
    """Whether the whole `answer` stands in the text as a token, whatever its case and spacing.

    Both texts are the program's and may be long and malicious, so no regular expression is made
    of them.
    """
    several = "\n" in answer
    wanted, text = _flat(answer, several), _flat(observation, several)
    if len(wanted.replace(" ", "")) < 3:
        return False
    start = -1
    for _ in range(_MOST_MATCHES):
        start = text.find(wanted, start + 1)
        if start < 0:
            return False
        if _stands_alone(text, start, start + len(wanted)):
            return True
    return False


def _flat(text: str, several: bool) -> str:
    """Lower case, one space between words; several answers may also be separated by , and ;."""
    if several:
        text = text.replace(",", " ").replace(";", " ")
    return " ".join(text.lower().split())


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether text[start:end] is not part of a longer word or number."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if _is_word(before[-1:]) or _is_word(after[:1]):
        return False
    decimals = after[:1] == "." and after[1:].isdecimal()
    return not decimals and not (before[-1:] == "." and before[:1].isdecimal() and len(before) == 2)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
