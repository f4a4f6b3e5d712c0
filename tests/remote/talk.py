"""A server and a client of it."""

import contextlib
import dataclasses

from spade_jax.remote import Question, RemoteModel, RemoteSettings
from spade_jax.text import Message
from tests.remote.server import serving

SETTINGS = RemoteSettings("", "m", timeout_s=30.0, deadline_s=60.0, retries=0)


def question(text="hello", **more):
    return Question((Message("user", text),), 16, 0.3, **more)


@contextlib.contextmanager
def talking(answers, **changes):
    with serving(answers) as server:
        settings = dataclasses.replace(SETTINGS, base_url=server.url, **changes)
        with RemoteModel(settings) as model:
            yield server, model


def ask_one(model, text="hello"):
    (answer,) = model.ask([question(text)], "test")
    return answer
