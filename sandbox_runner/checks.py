"""The pool believes nothing: what a child answers is checked against what was asked."""

from __future__ import annotations

import math

from sandbox_runner import protocol
from sandbox_runner.contract import REWARD_BOUND
from sandbox_runner.tool_schemas import read_tools
from sandbox_runner.types import EnvError, Limits

STAGES = frozenset({"parse", "load", "contract", "robustness", "limits", "trivial"})
_DETAIL_CHARACTERS = 500
_FRAME_EXTRA = 4096  # bytes besides the texts: of a turn with the most tool results, 1.3 kB


def largest_answer(request: protocol.Request, limits: Limits) -> int:
    """Most bytes that an honest child needs for the body of its answer."""
    if type(request) is not protocol.Play:
        return limits.observation_bytes + _FRAME_EXTRA
    texts = sum(len(episode.actions) + 2 for episode in request.episodes)
    return min(protocol.MAX_FRAME, texts * (limits.observation_bytes + _FRAME_EXTRA))


def check_answer(
    request: protocol.Request, answer: protocol.Answer, limits: Limits
) -> protocol.Answer | EnvError:
    """`answer`, or an EnvError for a reported failure. Raises ProtocolError when it cannot be."""
    if answer.id != request.id:
        raise protocol.ProtocolError(f"answer {answer.id} to request {request.id}")
    if isinstance(answer, protocol.Stepped):
        _check_turn(answer, limits)
    elif isinstance(answer, protocol.Failed):
        stage = answer.stage if answer.stage in STAGES else "robustness"
        detail = " ".join(printable(answer.detail).split())
        return EnvError(stage, detail[:_DETAIL_CHARACTERS])
    elif isinstance(answer, protocol.Started):
        _check_start(answer.text, answer.tools, limits)
    elif isinstance(answer, protocol.Text):
        _check_size(answer.text or "", limits)
    elif isinstance(answer, protocol.Played):
        _check_played(request, answer, limits)
    return answer


def printable(text: str) -> str:
    """A program's text without what a terminal would obey."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else f"\\x{ord(character):02x}"
        for character in text
    )


def _check_played(request: protocol.Play, answer: protocol.Played, limits: Limits) -> None:
    if len(answer.transcripts) != len(request.episodes):
        raise protocol.ProtocolError("not one transcript per episode")
    most_calls = sum(len(episode.actions) + 2 for episode in request.episodes)
    if not (0 <= answer.cpu < math.inf and 0 <= answer.calls <= most_calls):
        raise protocol.ProtocolError(f"{answer.calls} calls in {answer.cpu} s")
    for episode, transcript in zip(request.episodes, answer.transcripts, strict=True):
        if len(transcript.turns) > len(episode.actions):
            raise protocol.ProtocolError("more turns than actions")
        _check_start(transcript.first, transcript.tools, limits)
        _check_size(transcript.solution or "", limits)
        for turn in transcript.turns:
            _check_turn(turn, limits)


def _check_start(text: str, tools: str, limits: Limits) -> None:
    _check_size(text + tools, limits)
    if tools:
        try:
            read_tools(tools)
        except EnvError as error:
            raise protocol.ProtocolError(f"tools: {error.detail}") from error


def _check_turn(turn: protocol.Stepped | protocol.Turn, limits: Limits) -> None:
    if not -REWARD_BOUND <= turn.reward <= REWARD_BOUND:
        raise protocol.ProtocolError(f"reward {turn.reward}")
    text = turn.observation
    _check_size("".join((text, *turn.tool_results)) if turn.tool_results else text, limits)


def _check_size(text: str, limits: Limits) -> None:
    size = len(text) if text.isascii() else len(text.encode())
    if size > limits.observation_bytes:
        raise protocol.ProtocolError(f"observation of {size} bytes")
