"""A server's model in the place of a sampler, so that the one episode loop plays it too.

The loop speaks in tokens. Here a token stands for a whole message: `Messages` hands out the ids,
and `RemoteEngine` turns a row of them into a question. Nothing of this is ever trained.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from concurrent import futures

from spade_jax.remote.answers import Reply
from spade_jax.remote.client import Question, RemoteModel
from spade_jax.remote.errors import RemoteError
from spade_jax.sampler import Request, Turn
from spade_jax.text import Message
from spade_jax.text.chat import Tools, after_reply, check_extension, check_opening, with_tools

END = 0  # the id that ends a reply


class Messages:
    """A `ChatRenderer` whose vocabulary grows: the id of a message is its number here.

    Tools are told and called in text, as environments read calls: a server's own form of calls
    would have to be turned back into that.
    """

    stop_ids = truncate_suffix = (END,)

    def __init__(self) -> None:
        self._known = [Message("assistant", "")]

    def open(self, messages: Sequence[Message], tools: Tools = ()) -> list[int]:
        check_opening(messages)
        return [self.id_of(message) for message in with_tools("chatml", messages, tools)]

    def extend(self, messages: Sequence[Message]) -> list[int]:
        check_extension(messages)
        return [self.id_of(message) for message in messages]

    def resume(
        self, row: Sequence[int], messages: Sequence[Message], tools: Tools = ()
    ) -> tuple[int, list[int]]:
        return len(row), self.extend(after_reply(messages))

    def reply(self, content: str) -> list[int]:
        return [self.id_of(Message("assistant", content)), END]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(message.content for message in self.messages(tokens))

    def id_of(self, message: Message) -> int:
        self._known.append(message)
        return len(self._known) - 1

    def messages(self, tokens: Sequence[int]) -> tuple[Message, ...]:
        return tuple(self._known[token] for token in tokens if token != END)


@dataclasses.dataclass(eq=False)
class _Handle:
    """See `sampler.Handle`: the conversation so far."""

    engine: "RemoteEngine"
    request: Request
    order: int
    tokens: list[int]
    call: futures.Future[Reply] | None = None

    def extend(self, tokens: Sequence[int], max_new_tokens: int, kept: int | None = None) -> None:
        self.tokens = [*self.tokens[:kept], *tokens]
        self.engine.ask(self, max_new_tokens)

    def close(self) -> None:
        self.engine.drop(self)


class RemoteEngine:
    """The part of `sampler.Engine` that plays need. A question that fails ends its turn, without a
    token, by "deadline": no reply came in time."""

    def __init__(self, server: RemoteModel, purpose: str) -> None:
        """`purpose`: on whose account the calls go."""
        self._server, self._purpose = server, purpose
        self.chat = Messages()
        self._calls: dict[futures.Future[Reply], _Handle] = {}
        self._submitted = 0

    @property
    def running(self) -> bool:
        return bool(self._calls)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        yield

    def submit(self, request: Request) -> _Handle:
        handle = _Handle(self, request, self._submitted, list(request.tokens))
        self._submitted += 1
        self.ask(handle, request.max_new_tokens)
        return handle

    def advance(self, timeout: float | None = None) -> list[Turn]:
        """The turns that ended, in order of submission; waits for the first.

        Raises:
            RemoteSetupError: the server denies key or model.
        """
        done, _ = futures.wait(self._calls, timeout, futures.FIRST_COMPLETED)
        turns = [self._turn(self._calls.pop(call), call) for call in done]
        return sorted(turns, key=lambda turn: turn.handle.order)

    def ask(self, handle: _Handle, max_new_tokens: int) -> None:
        request = handle.request
        question = Question(
            self.chat.messages(handle.tokens), max_new_tokens, request.temperature, request.seed,
            request.top_p,
        )  # fmt: skip
        handle.call = self._server.submit(question, self._purpose)
        self._calls[handle.call] = handle

    def drop(self, handle: _Handle) -> None:
        if self._calls.pop(handle.call, None) is not None:
            handle.call.cancel()

    def _turn(self, handle: _Handle, call: futures.Future[Reply]) -> Turn:
        try:
            reply = call.result()
        except RemoteError:
            return Turn(handle, (), (), "deadline", -1)
        said, end = self.chat.reply(reply.text)
        tokens = (said,) if reply.cut else (said, end)
        handle.tokens += tokens
        return Turn(handle, tokens, (0.0,) * len(tokens), "length" if reply.cut else "stop", -1)
