"""Questions of one turn, asked of a model: the run's own or a server's. None of it is trained."""

import dataclasses
import re
from collections.abc import Callable, Sequence

from spade_jax.remote import Question, RemoteError, RemoteModel, Reply
from spade_jax.rollout import Episode, Feedback, ImmediateWorld, PlaySettings, Task, play
from spade_jax.sampler import Engine
from spade_jax.text import ChatRenderer, Message, after_thinking

UNKNOWN = "unknown"  # the verdict of a model that gave none

_VERDICT = re.compile(r"^[^\w\n]*verdict[^\w\n]*(\w+)[^\w\n]*$", re.IGNORECASE | re.MULTILINE)


class PromptWorld(ImmediateWorld):
    """A world of one turn: the first observation is the prompt, every reply ends the episode."""

    def first(self, task: Task) -> Feedback:
        return Feedback(task.place)

    def answer(self, task: Task, reply: str) -> Feedback:
        return Feedback(terminated=True)


@dataclasses.dataclass(frozen=True)
class Answer:
    """`text` is without the thinking before it; `problem` says why there is none, or is ""."""

    text: str
    problem: str = ""


Ask = Callable[[Sequence[str], Sequence[int]], list[Answer]]  # of prompts and their sample seeds


def asking_model(engine: Engine, chat: ChatRenderer, how: PlaySettings) -> Ask:
    """Asks the model whose parameters the engine has loaded."""

    def ask(prompts: Sequence[str], seeds: Sequence[int]) -> list[Answer]:
        tasks = [
            Task(prompt, 0, seed, how) for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        return [_answer(episode) for episode in play(engine, chat, PromptWorld(), tasks)]

    return ask


def asking_server(
    server: RemoteModel, purpose: str, temperature: float, max_new_tokens: int
) -> Ask:
    """Asks a server; `purpose` is whose account it goes on. Raises RemoteSetupError."""

    def ask(prompts: Sequence[str], seeds: Sequence[int]) -> list[Answer]:
        questions = [
            Question((Message("user", prompt),), max_new_tokens, temperature, seed)
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        return [_reply(reply) for reply in server.ask(questions, purpose)]

    return ask


def verdict(answer: Answer, known: Sequence[str]) -> str:
    """The last line "Verdict: WORD", if its word is a known one, else `UNKNOWN`."""
    found = _VERDICT.findall(answer.text)
    word = found[-1].lower() if found else UNKNOWN
    return word if word in known else UNKNOWN


def _answer(episode: Episode) -> Answer:
    if not episode.replies:
        return Answer("", "the question leaves no room for an answer")
    if episode.unfinished:
        return Answer("", f"the answer ended by {episode.outcome}")
    return _said(episode.replies[-1])


def _reply(reply: Reply | RemoteError) -> Answer:
    if isinstance(reply, RemoteError):
        return Answer("", str(reply))
    return Answer("", "the answer ended by cut") if reply.cut else _said(reply.text)


def _said(text: str) -> Answer:
    text = after_thinking(text).strip()
    return Answer(text, "" if text else "an empty answer")
