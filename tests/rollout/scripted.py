"""A stand-in for the sampler: it says what it is told, and remembers in which context."""

import contextlib
import dataclasses
import math

import numpy as np

from spade_jax.sampler import ContextError, Request, Turn


@dataclasses.dataclass(eq=False)
class ScriptedHandle:
    engine: "ScriptedEngine"
    request: Request
    context: list

    def extend(self, tokens, max_new_tokens, kept=None):
        self.context = [*self.context[:kept], *tokens]
        self.engine.due.append(self)

    def close(self):
        self.engine.open -= 1


class ScriptedEngine:
    """Every handle that waits has its turn at the next `advance`.

    Attributes:
        requests: all that were submitted, also those that found no room.
        said: `(context, ids)` of each turn.
        open: how many handles are not closed.
    """

    waiting = contextlib.nullcontext

    def __init__(self, say, room=math.inf, version=3):
        """`say` gives the ids of a handle's turn and how it ends; `room` is for a prompt's ids."""
        self.say, self.room, self.version = say, room, version
        self.requests, self.due, self.said, self.open = [], [], [], 0

    @property
    def running(self):
        return bool(self.due)

    def submit(self, request):
        self.requests.append(request)
        if len(request.tokens) > self.room:
            raise ContextError("too long")
        self.due.append(ScriptedHandle(self, request, list(request.tokens)))
        self.open += 1
        return self.due[-1]

    def advance(self, timeout=None):
        due, self.due = self.due, []
        return [self._turn(handle) for handle in due]

    def _turn(self, handle):
        ids, end = self.say(handle)
        self.said.append((tuple(handle.context), tuple(ids)))
        handle.context += ids
        return Turn(handle, tuple(ids), (-1.0,) * len(ids), end, self.version)


def in_turn(replies, end="stop"):
    """Says the replies one after the other, whoever asks."""
    left = iter(replies)
    return lambda handle: (next(left), end)


def spelled(texts, tokenizer, chat):
    """`in_turn`, of texts that end as the chat wants it."""
    return in_turn([*tokenizer.encode(text), *chat.stop_ids] for text in texts)


def sampled(rows):
    """`(context, ids)` of each run of sampled ids."""
    found = []
    for row in rows:
        edges = np.flatnonzero(np.diff([0, *row.mask, 0]))
        for start, end in edges.reshape(-1, 2):
            found.append((tuple(row.tokens[:start]), tuple(row.tokens[start:end])))
    return found
