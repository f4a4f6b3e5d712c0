"""What a server sends: taken in up to a bound, and read.

A server is not trusted further than its text: whatever it sends is a reply or an UnreadableError.
"""

import dataclasses
from types import ModuleType
from typing import Annotated, Any

import msgspec

MOST_TEXT = 1 << 20  # characters of a reply; 128k tokens of prose are half as many
MOST_BODY = 8 * MOST_TEXT  # bytes, unpacked; a character takes up to six of them in JSON
_MOST_TOKENS = 10**9  # that one answer may say it took
_FRAMING = ("content-encoding", "content-length", "transfer-encoding")


class UnreadableError(Exception):
    """The server sent something else than an answer. The text may be long, and hold the key."""


@dataclasses.dataclass(frozen=True)
class Reply:
    """`cut`: it ended by its token limit, not by itself."""

    text: str
    cut: bool = False


_Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST_TOKENS)] | None


class Usage(msgspec.Struct):
    """What an answer says it took; 0 and None: it does not say."""

    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: msgspec.Raw = msgspec.Raw(b"null")


def read(body: bytes) -> tuple[Reply, Usage]:
    """Counts that can not be are none, and the reply is good without them.

    Raises:
        UnreadableError: no completion, one without choices, or one longer than `MOST_TEXT`.
    """
    try:
        completion = msgspec.json.decode(body, type=_Completion)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableError(f"{error} in {body.decode(errors='replace')}") from None
    if not completion.choices:
        raise UnreadableError("an answer without choices")
    choice = completion.choices[0]
    text = choice.message.content or ""
    if len(text) > MOST_TEXT:
        raise UnreadableError(f"a reply of {len(text)} characters; {MOST_TEXT} are the most")
    return Reply(text, choice.finish_reason == "length"), _read_usage(completion.usage)


def _read_usage(raw: msgspec.Raw) -> Usage:
    try:
        return msgspec.json.decode(raw, type=Usage | None) or Usage()
    except msgspec.DecodeError:
        return Usage()


def bounded_client(openai: ModuleType) -> Any:
    """The package's HTTP client, for bodies of up to `MOST_BODY` bytes and without redirects,
    which would take questions to where nobody sent them. A longer body is an UnreadableError."""

    class Client(openai.DefaultAsyncHttpxClient):
        async def send(self, request, **how):
            response = await super().send(request, **how | {"stream": True})
            try:
                body = await _take(response)
            finally:
                await response.aclose()
            kept = [pair for pair in response.headers.multi_items() if pair[0] not in _FRAMING]
            return type(response)(
                response.status_code, headers=kept, content=body, request=request
            )

    return Client(follow_redirects=False)


async def _take(response: Any) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():  # unpacked, at most 1 MiB at a time
        body += piece
        if len(body) > MOST_BODY:
            raise UnreadableError(f"a body of more than {MOST_BODY} bytes")
    return bytes(body)
