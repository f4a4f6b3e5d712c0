"""What the model's text says: the agent's boxed action, the designer's source and hint.

Nothing here runs or compiles what it reads, and every function takes time linear in the text.
"""

import re
from dataclasses import dataclass

BOX = r"\boxed{"
THOUGHT, THOUGHT_END = "<think>", "</think>"
MOST_ACTION = 100_000  # characters, as many as validation tries; a server's model may say more

_BRACE = re.compile(r"\\boxed\{|[{}]")
_FENCE = re.compile(r"^ {0,3}```[ \t]*+(?P<language>[^`\s]*+)[^`\n]*+$", re.MULTILINE)
_PYTHON = frozenset({"", "python", "python3", "py"})
_CLASS = re.compile(r"^[ \t]*class[ \t]+\w", re.MULTILINE)
_HINT = re.compile(r"^[ \t]*Hint:[ \t]*", re.MULTILINE)


@dataclass(frozen=True)
class Design:
    """An environment as the designer wrote it; `hint` is None if none follows the code."""

    source: str
    hint: str | None


@dataclass(frozen=True)
class ParseProblem:
    """Why a designer's reply holds no environment; reads like a rejection by the sandbox."""

    detail: str
    stage: str = "parse"


def after_thinking(text: str) -> str:
    """What a reply says after its last `</think>`; nothing where a thought is never closed."""
    _, closed, said = text.rpartition(THOUGHT_END)
    if THOUGHT in said:
        return ""
    return said.lstrip("\n") if closed else text


def last_boxed(text: str) -> str | None:
    r"""The stripped text inside the last `\boxed{...}` that is closed, or None.

    Braces nest and each one counts, also after a backslash. Of nested boxes the innermost is last.
    """
    opened: list[int | None] = []  # where a box's content starts; None for a plain brace
    best: tuple[int, int] | None = None
    for match in _BRACE.finditer(text):
        if match.group() != "}":
            opened.append(match.end() if match.group() == BOX else None)
        elif opened:
            start = opened.pop()
            if start is not None and (best is None or start > best[0]):
                best = (start, match.start())
    return None if best is None else text[slice(*best)].strip()


def canonical_action(text: str, tool_use: bool = False) -> str:
    r"""What `step` gets of a reply, its thinking never: in a game `\boxed{action}`, or all of it if
    it boxes nothing; in tool use always all of it. What is longer than `MOST_ACTION` is cut."""
    said = after_thinking(text)
    action = None if tool_use else last_boxed(said)
    return (said if action is None else BOX + action + "}")[:MOST_ACTION]


def code_block(text: str) -> str | None:
    """The last complete fenced block that holds a class and is labelled Python or not at all."""
    block = _find_block(text)
    return None if block is None else text[block.source]


def after_code(text: str) -> str:
    """What follows the block that `code_block` returns; empty if there is none."""
    block = _find_block(text)
    return "" if block is None else text[block.end :]


def parse_design(text: str) -> Design | ParseProblem:
    """Splits what a designer's reply says after its thinking. The hint is the text after the
    code's `Hint:`, as one line."""
    text = after_thinking(text)
    block = _find_block(text)
    if block is None:
        fences = len(_FENCE.findall(text))
        missing = "complete Python block that holds a class" if fences else "code block"
        return ParseProblem(f"no {missing} in {len(text)} characters with {fences} fence lines")
    marked = _HINT.search(text, block.end)
    hint = " ".join(text[marked.end() :].split()) if marked else ""
    return Design(source=text[block.source], hint=hint or None)


@dataclass(frozen=True)
class _Block:
    source: slice
    end: int


def _find_block(text: str) -> _Block | None:
    found = None
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None or fence["language"]:  # a labelled fence can only open
            opening = fence
        else:
            language = opening["language"].lower()
            source = slice(opening.end() + 1, fence.start())
            if language in _PYTHON and _CLASS.search(text[source]):
                found = _Block(source, fence.end())
            opening = None
    return found
