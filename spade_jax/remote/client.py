"""A language model behind any server that speaks OpenAI's chat completions.

Its answers can not be reproduced: what depends on them is kept where it is used, and a resumed run
does not ask again for what its checkpoint holds.
"""

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

from spade_jax import extras
from spade_jax.remote.answers import Reply, UnreadableError, bounded_client, read
from spade_jax.remote.errors import RemoteError, RemoteSetupError
from spade_jax.remote.key import read_key
from spade_jax.remote.use import Prices, Use
from spade_jax.text import Message

FIELDS = ("max_tokens", "max_completion_tokens", "temperature", "top_p", "seed")
CLOSE_S = 5.0  # most seconds that closing waits for calls under way
_MOST_SHOWN = 200  # characters of a server's message
_MOVED = (301, 302, 303, 307, 308)
_DENIED = (*_MOVED, 401, 403, 404)  # address, key, rights, model or path
_UNFIT = (400, 403, 404, 413, 422)  # of one question, for example too long
_ILL = ("timeout", "connection", "status")  # kinds that say that the server is not well


@dataclasses.dataclass(frozen=True)
class RemoteSettings:
    """Attributes:
    base_url: of the server, up to and including `/v1` where it has that.
    key_variable: name of the environment variable that holds the API key; empty: no key.
    timeout_s: seconds that the server may be silent, in one try.
    deadline_s: seconds of one question from its first try on, retries and waits between included.
    retries: further tries after a silence, a lost connection, 408, 409, 429 or 5xx.
    max_concurrency: questions under way at a time; others wait for their turn.
    breaker_failures: failed questions in a row after which the server is left alone...
    breaker_s: ...for so many seconds; every question in that time fails at once.
    fields: members of `FIELDS` that a request has; not every server takes every one.
    prices: of tokens.
    """

    base_url: str
    model: str
    key_variable: str = ""
    timeout_s: float = 120.0
    deadline_s: float = 600.0
    retries: int = 4
    max_concurrency: int = 16
    breaker_failures: int = 8
    breaker_s: float = 60.0
    fields: tuple[str, ...] = ("max_tokens", "temperature", "top_p", "seed")
    prices: Prices = Prices()


@dataclasses.dataclass(frozen=True)
class Question:
    """A conversation that the model is to go on with, and how it samples."""

    messages: tuple[Message, ...]
    max_new_tokens: int
    temperature: float
    seed: int = 0
    top_p: float = 1.0


class _DeniedError(RemoteError):
    """Either every question must fail, or this one is turned down: see `RemoteModel._judge`."""


class RemoteModel:
    """Asks a server many questions at a time, from a thread of its own. A context manager.

    After `breaker_failures` failed questions in a row no more are sent for `breaker_s` seconds:
    they fail at once with `kind` "breaker". Then one more failure starts that anew, and an answer
    ends it. A question that the server turns down as such, or answers with what is no answer, is
    no sign that it is ill: one question shall not decide what becomes of others.
    """

    def __init__(self, settings: RemoteSettings) -> None:
        """Connects to nothing yet.

        Raises:
            RemoteSetupError: a package of the extra `remote` is missing, or there is no key or
                address that a request could use.
        """
        self.settings = settings
        self._openai = extras.require("openai", "remote", RemoteSetupError)
        breakers = extras.require("circuitbreaker", "remote", RemoteSetupError)
        self._breaker = breakers.CircuitBreaker(
            settings.breaker_failures, settings.breaker_s, _is_illness, "remote"
        )
        self._key = read_key(settings.key_variable)
        self._client = self._connect()
        self._places = asyncio.Semaphore(settings.max_concurrency)
        self._use: dict[str, Use] = {}
        self._open, self._denied = 0, 0  # questions that did not end; that wait to be judged
        self._answered = False  # any question so far
        self._settled = asyncio.Event()  # whether a denial is the question's fault or the run's
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="remote", daemon=True)

    def __enter__(self) -> "RemoteModel":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        """Gives up what is under way."""
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)

    def submit(self, question: Question, purpose: str) -> Future[Reply]:
        """Asks; returns at once. `result()` raises RemoteError or RemoteSetupError, and needs no
        deadline: every question has one, once it is its turn."""
        return asyncio.run_coroutine_threadsafe(self._ask(question, purpose), self._loop)

    def ask(self, questions: Sequence[Question], purpose: str) -> list[Reply | RemoteError]:
        """All answers, in order; what failed is a value among them.

        Raises:
            RemoteSetupError: the server denies address, key or model.
        """
        futures = [self.submit(question, purpose) for question in questions]
        return [_outcome(future) for future in futures]

    def take_use(self) -> dict[str, Use]:
        """What was used since the last call, by purpose; call it while nothing is under way."""
        used, self._use = self._use, {}
        return used

    @property
    def refusing(self) -> bool:
        """Whether the server is left alone for now."""
        return self._breaker.opened

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.close()

    def _connect(self):
        """A client of the package, which has not connected yet."""
        settings, omitted = self.settings, self._openai.Omit()
        invalid = extras.require("httpx2", "remote", RemoteSetupError).InvalidURL
        try:
            client = self._openai.AsyncOpenAI(
                api_key=self._key.value or "none", base_url=settings.base_url,
                timeout=settings.timeout_s, max_retries=settings.retries,
                http_client=bounded_client(self._openai),
                # these the package would take from the environment
                default_headers={"OpenAI-Organization": omitted, "OpenAI-Project": omitted},
            )  # fmt: skip
            good = client.base_url.scheme in ("http", "https") and client.base_url.host
        except invalid:
            good = False
        if not good:
            raise RemoteSetupError(
                f"remote.base_url={settings.base_url!r}: expected http://HOST... or https://HOST..."
            )
        return client

    async def _ask(self, question: Question, purpose: str) -> Reply:
        used = Use(calls=1)
        self._open += 1
        try:
            return await self._in_turn(question, used)
        except BaseException:
            used.failures = 1
            raise
        finally:
            self._open -= 1
            self._settle()
            self._use.setdefault(purpose, Use()).add(used)

    async def _in_turn(self, question: Question, used: Use) -> Reply:
        try:
            async with self._places:
                if self._breaker.opened:
                    raise RemoteError("breaker", "too many failures in a row; not asked again yet")
                with self._breaker:
                    reply = await self._answer(question, used)
        except _DeniedError as denial:
            await self._judge(denial)
            raise
        self._answered = True
        return reply

    async def _judge(self, denial: _DeniedError) -> None:
        """Waits until any question was answered, at this time or before: a server that moderates
        turns down some and not all.

        Raises:
            RemoteSetupError: none was, and no other is under way or `deadline_s` are over.
        """
        self._denied += 1
        self._settle()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), self.settings.deadline_s)
        finally:
            self._denied -= 1
        if not self._answered:
            raise RemoteSetupError(
                f"remote.base_url={self.settings.base_url!r}, remote.model={self.settings.model!r}:"
                f" the server says {denial.detail}"
            ) from None

    def _settle(self) -> None:
        if self._answered or 0 < self._denied == self._open:
            self._settled.set()

    async def _answer(self, question: Question, used: Use) -> Reply:
        with self._failures_named():
            async with asyncio.timeout(self.settings.deadline_s):
                raw = await self._client.chat.completions.with_raw_response.create(
                    **_request(question, self.settings)
                )
            used.retries = raw.retries_taken
            reply, usage = read(raw.content)
        used.prompt_tokens = usage.prompt_tokens or 0
        used.completion_tokens = usage.completion_tokens or 0
        return reply

    @contextlib.contextmanager
    def _failures_named(self) -> Iterator[None]:
        """Turns what the package raises into this module's errors; the key is in none of them."""
        try:
            yield
        except TimeoutError:
            raise RemoteError(
                "timeout", f"no answer within remote.deadline_s={self.settings.deadline_s:g}"
            ) from None
        except self._openai.APITimeoutError:
            raise RemoteError(
                "timeout", f"silent for remote.timeout_s={self.settings.timeout_s:g}"
            ) from None
        except self._openai.APIConnectionError as error:
            raise RemoteError("connection", self._short(error.__cause__ or error)) from None
        except self._openai.APIStatusError as error:
            raise self._status(error) from None
        except UnreadableError as error:
            raise RemoteError("reply", self._line(str(error))) from None
        except self._openai.OpenAIError as error:
            raise RemoteError("reply", self._short(error)) from None

    def _status(self, error) -> RemoteError:
        status, said = error.status_code, self._short(error)
        if status in _MOVED:
            place = error.response.headers.get("Location")
            said = self._line(f"to ask {place} instead, which is not done")
        kind = "question" if status in _UNFIT else "status"
        return (_DeniedError if status in _DENIED else RemoteError)(kind, f"{status} {said}")

    def _short(self, error: BaseException) -> str:
        return self._line(f"{type(error).__name__}: {error}")

    def _line(self, text: str) -> str:
        """For terminals and records. A server may quote the key that it was given."""
        shown = self._key.hidden_in(text)[:_MOST_SHOWN]
        return " ".join("".join(c if c.isprintable() else " " for c in shown).split())


def _is_illness(kind: type[BaseException], error: BaseException) -> bool:
    """Whether an exception says that the server is not well."""
    return isinstance(error, RemoteError) and error.kind in _ILL


def _request(question: Question, settings: RemoteSettings) -> dict:
    values = {
        "max_tokens": question.max_new_tokens,
        "max_completion_tokens": question.max_new_tokens,
        "temperature": question.temperature,
        "top_p": question.top_p,
        "seed": question.seed,
    }
    chosen = {name: values[name] for name in settings.fields}
    return {"model": settings.model, "messages": _turns(question.messages), **chosen}


def _turns(messages: Sequence[Message]) -> list[dict]:
    """One message per turn, as many templates insist. Results of calls that were made in text are
    the user's, in tags."""
    turns: list[dict] = []
    for said in messages:
        role, text = said.role, said.content
        if role == "tool":
            role, text = "user", f"<tool_response>\n{text}\n</tool_response>"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += f"\n{text}"
        else:
            turns.append({"role": role, "content": text})
    return turns


def _outcome(future: Future[Reply]) -> Reply | RemoteError:
    try:
        return future.result()
    except RemoteError as error:
        return error
