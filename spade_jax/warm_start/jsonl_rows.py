"""Warm-start examples of one's own: JSON Lines of prompt and response, or of messages.

    {"prompt": "Skill: ...", "response": "```python ...", "role": "designer"}
    {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}

`role` is optional: "designer" or "agent" says whose rows hold the example, see `Example`. So is
`tools`: the schemas of what the assistant may call, in the OpenAI form of functions.
"""

import glob
import pathlib
import shutil
from collections.abc import Iterator
from typing import Literal

import msgspec

from spade_jax.text import Design, Message, TextError, parse_design
from spade_jax.warm_start.example import Example, WarmStartError

PREFIX = "jsonl:"


class _Turn(msgspec.Struct):
    role: Literal["system", "user", "assistant", "tool"]
    content: str


class _Row(msgspec.Struct):
    prompt: str | None = None
    response: str | None = None
    messages: list[_Turn] = msgspec.field(default_factory=list)
    role: Literal["designer", "agent"] | None = None
    tools: list[dict] = msgspec.field(default_factory=list)


def copy(source: str, folder: pathlib.Path) -> None:
    """Copies the files of `jsonl:GLOB` into `folder`, so that a run keeps what it was made of.

    Raises:
        WarmStartError: there is no such file, or a line is no example; it names file and line.
    """
    found = map(pathlib.Path, sorted(glob.glob(source.removeprefix(PREFIX))))
    paths = [path for path in found if path.is_file()]
    if not paths:
        raise WarmStartError(f"warm_start.sources: {source} matches no file")
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if not list(_read(path)):
            raise WarmStartError(f"{path} holds no example")
        shutil.copyfile(path, folder / f"{len(list(folder.iterdir())):04d}.jsonl")


def examples(folder: pathlib.Path) -> list[Example]:
    """The examples of the copied files, in order."""
    return [example for path in sorted(folder.glob("*.jsonl")) for example in _read(path)]


def sources(folder: pathlib.Path) -> Iterator[str]:
    """Every environment source that a reply spells."""
    for example in examples(folder):
        for message in example.messages:
            design = parse_design(message.content) if message.role == "assistant" else None
            if isinstance(design, Design):
                yield design.source


def _read(path: pathlib.Path) -> Iterator[Example]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield _example(msgspec.json.decode(line, type=_Row))
                except (msgspec.MsgspecError, UnicodeDecodeError, TextError) as error:
                    raise WarmStartError(
                        f'{path}, line {number}: {error}; expected {{"prompt", "response"}} or'
                        ' {"messages"}, and optionally "role"'
                    ) from error


def _example(row: _Row) -> Example:
    messages = [Message(turn.role, turn.content) for turn in row.messages]
    if messages and (row.prompt is not None or row.response is not None):
        raise TextError("both messages and prompt or response")
    if not messages:
        if row.prompt is None or row.response is None:
            raise TextError("neither prompt and response nor messages")
        messages = [Message("user", row.prompt), Message("assistant", row.response)]
    roles = [message.role for message in messages]
    if roles[0] == "assistant" or roles[-1] != "assistant":
        raise TextError(f"the turns are {', '.join(roles)}: the assistant cannot speak first and"
                        " must speak last")  # fmt: skip
    if any(pair == ("assistant", "assistant") for pair in zip(roles, roles[1:], strict=False)):
        raise TextError("the assistant speaks twice in a row")
    return Example(tuple(messages), row.role, tuple(row.tools))
