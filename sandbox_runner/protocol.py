"""Frames and messages between a pool and one child.

A frame is a 4-byte big-endian length and a msgpack body. Bodies are decoded into the types below
and nothing else, so what a child sends can be wrong but never be code. Every answer carries the
id of its request; answers come in the order of the requests.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_FRAME = 16 << 20
_HEADER = 4
_MOST_ITEMS = 4096  # of a list in an answer; empty ones are small in a frame and large in memory
MOST_RESULTS = 256  # of tools, in one step


class ProtocolError(Exception):
    """The other side sent something that is not a valid message."""


class _Message(msgspec.Struct, array_like=True, tag=True, frozen=True):
    id: int


class Open(_Message):
    """Make an instance. The first one of a child loads `source`; later ones ignore it."""

    session: int
    source: str
    max_turns: int


class Reset(_Message):
    session: int
    seed: int | None


class Step(_Message):
    session: int
    action: str


class Solution(_Message):
    session: int


class Close(_Message):
    session: int


class Episode(msgspec.Struct, array_like=True, frozen=True):
    """A scripted episode: reset with `seed`, then `actions` until it ends or they run out."""

    session: int
    seed: int
    actions: list[str]
    solution: bool = False  # also ask for the reference solution after the reset


class Play(_Message):
    """Scripted episodes: one after the other, or turn by turn when `interleaved`."""

    episodes: list[Episode]
    interleaved: bool = False


class Done(_Message):
    pass


class Started(_Message):
    """After a reset. `tools` is a JSON list of schemas, "" where there are none."""

    text: str
    tools: str = ""


class Text(_Message):
    text: str | None


ToolResults = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_RESULTS)]


class Stepped(_Message):
    observation: str
    reward: float
    terminated: bool
    truncated: bool
    tool_results: ToolResults | None = None
    malformed: bool = False


class Failed(_Message):
    stage: Annotated[str, msgspec.Meta(max_length=100)]
    detail: Annotated[str, msgspec.Meta(max_length=4000)]


class Turn(msgspec.Struct, array_like=True, frozen=True):
    observation: str
    reward: float
    terminated: bool
    truncated: bool
    tool_results: ToolResults | None = None
    malformed: bool = False


class Transcript(msgspec.Struct, array_like=True, frozen=True):
    first: str
    solution: str | None
    turns: Annotated[list[Turn], msgspec.Meta(max_length=_MOST_ITEMS)]
    tools: str = ""  # as in Started


class Played(_Message):
    """Transcripts in the order of the episodes, and the CPU seconds and calls they took."""

    transcripts: Annotated[list[Transcript], msgspec.Meta(max_length=_MOST_ITEMS)]
    cpu: float
    calls: int


Request = Open | Reset | Step | Solution | Close | Play
Answer = Done | Started | Text | Stepped | Played | Failed

_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(Request)
_ANSWERS: dict[type[Request], type[Answer]] = {
    Open: Done, Close: Done, Reset: Started, Solution: Text, Step: Stepped, Play: Played
}  # fmt: skip
_answer_decoders = {
    request: msgspec.msgpack.Decoder(answer | Failed) for request, answer in _ANSWERS.items()
}


def encode(message: Request | Answer) -> bytes:
    """One frame. Raises ProtocolError for lone surrogates and above MAX_FRAME bytes."""
    try:
        body = _encoder.encode(message)
    except (UnicodeEncodeError, OverflowError) as error:
        raise ProtocolError(f"message cannot be encoded: {error}") from error
    if len(body) > MAX_FRAME:
        raise ProtocolError(f"message of {len(body)} bytes, at most {MAX_FRAME} allowed")
    return len(body).to_bytes(_HEADER, "big") + body


def decode_request(body: bytes) -> Request:
    return _decode(_request_decoder, body)


def decode_answer(body: bytes, request: type[Request]) -> Answer:
    """An answer of the type that such a request has, or a failure; all else is a ProtocolError."""
    return _decode(_answer_decoders[request], body)


def _decode(decoder: msgspec.msgpack.Decoder, body: bytes):
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        raise ProtocolError(f"bad message: {error}") from error


class Inbox:
    """Bytes in, whole frame bodies out. Mostly a frame arrives in one piece; one that comes byte by
    byte is collected without copying what is there each time."""

    def __init__(self) -> None:
        self._buffer: bytes | bytearray = b""

    def __bool__(self) -> bool:
        return bool(self._buffer)

    def add(self, data: bytes | memoryview) -> None:
        if not self._buffer:
            self._buffer = bytes(data)
            return
        if isinstance(self._buffer, bytes):
            self._buffer = bytearray(self._buffer)
        self._buffer += data

    def take(self, largest: int = MAX_FRAME) -> bytes | None:
        """The next body, None while it is incomplete. Raises ProtocolError when it announces more
        than `largest` bytes."""
        buffer = self._buffer
        if len(buffer) < _HEADER:
            return None
        size = int.from_bytes(buffer[:_HEADER], "big")
        if size > largest:
            raise ProtocolError(f"frame of {size} bytes, at most {largest} allowed")
        end = _HEADER + size
        if len(buffer) < end:
            return None
        self._buffer = buffer[end:]
        return bytes(buffer[_HEADER:end])
