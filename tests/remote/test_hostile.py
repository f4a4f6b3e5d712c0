"""Nothing that a server sends shows the key, ends the run, or takes longer or more than allowed."""

import contextlib
import dataclasses
import gzip
import json
import re
import socket
import threading

import pytest

from spade_jax.remote import RemoteModel, RemoteSetupError, Reply
from spade_jax.remote.answers import MOST_BODY, MOST_TEXT
from spade_jax.remote.key import Key
from tests.remote.server import completion, fails, says, sends, serving
from tests.remote.talk import SETTINGS, ask_one, question, talking

KEY = "sk-secret/0123456789+abc"
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("A_KEY", KEY)
    return {"key_variable": "A_KEY"}


def quotes(handler, request):
    """As a proxy does that shows what it was sent."""
    handler.send_bytes(200, f"<html>{handler.headers['Authorization']}</html>".encode())


def drips(handler, request):
    """A byte at a time, without an end."""
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while not handler.server.over.wait(0.02):
            handler.wfile.write(b" ")
    handler.close_connection = True


def floods(status):
    """As fast as it can, until the client hangs up."""

    def answer(handler, request):
        handler.send_response(status)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while not handler.server.over.is_set():
                handler.wfile.write(bytes(1 << 20))
        handler.close_connection = True

    return answer


def packed(body):
    body = gzip.compress(body, 1)
    return lambda handler, _: handler.send_bytes(200, body, [("Content-Encoding", "gzip")])


def moves(status, url):
    return fails(status, headers=[("Location", url)])


@pytest.mark.parametrize(
    "answer",
    [
        quotes,
        sends(json.dumps({"debug": KEY}).replace("/", r"\/").encode()),
        fails(500, "x" * 140 + KEY),
        fails(400, "x" * 140 + KEY),
    ],
)
def test_no_part_of_the_key_is_in_an_error(answer, key):
    with talking([answer], **key) as (server, model):
        error = ask_one(model)
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"
        assert "sk-" not in str(error) and len(str(error)) < 300


@pytest.mark.parametrize("status", [401, 403])
def test_no_part_of_the_key_is_in_what_ends_the_run(status, key):
    with talking([fails(status, "x" * 110 + KEY)], **key) as (_, model):
        with pytest.raises(RemoteSetupError, match=str(status)) as caught:
            ask_one(model)
        assert "sk-" not in str(caught.value)


@pytest.mark.parametrize("value", ["sk-a", "a\"b'c\\d", "a+b/c=", "(x)[y]*"])
@pytest.mark.parametrize("written", [str, repr, json.dumps, lambda key: repr(json.dumps(key))])
def test_a_key_is_hidden_however_it_is_quoted(value, written):
    text = Key(value).hidden_in(f"it is {written(value)}!")
    assert re.fullmatch(r"""it is [\\"']*\[key\][\\"']*!""", text)
    assert value not in repr(Key(value))


def test_the_line_end_of_a_mounted_secret_is_not_the_keys(monkeypatch):
    monkeypatch.setenv("A_KEY", f"{KEY}\n")
    with talking([says("hi")], key_variable="A_KEY") as (server, model):
        assert ask_one(model) == Reply("hi")
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("value", ["", " \n", "sk-ключ", "sk-\x07", "sk-a\nsk-b"])
def test_a_key_that_no_request_can_carry_is_refused_at_the_start(value, monkeypatch):
    monkeypatch.setenv("A_KEY", value)
    settings = dataclasses.replace(SETTINGS, base_url="http://x", key_variable="A_KEY")
    with pytest.raises(RemoteSetupError, match="remote.key_variable='A_KEY'.*ASCII$") as caught:
        RemoteModel(settings)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "host:8000/v1", "http://", "http://[::1", "ftp://host", "http://h:port/v1"]
)
def test_an_address_that_is_none_is_refused_at_the_start(url):
    with pytest.raises(RemoteSetupError, match="remote.base_url=.*expected http://HOST"):
        RemoteModel(dataclasses.replace(SETTINGS, base_url=url))


@pytest.mark.parametrize(
    "answer,said",
    [
        (sends(b'{"x":' + DEEP + b', "choices": []}'), "recursion"),
        (sends(b'{"choices":[{"message":{"content":"\\ud800 x"}}]}'), "surrogate"),
        (sends(b'{"choices":[{"message":{"content":"\x1b[2J"}}]}'), "malformed"),
        (says("x" * (MOST_TEXT + 1)), f"{MOST_TEXT} are the most"),
        (packed(bytes(4 * MOST_BODY)), f"more than {MOST_BODY} bytes"),
        (floods(200), f"more than {MOST_BODY} bytes"),
        (floods(500), f"more than {MOST_BODY} bytes"),
        (floods(403), f"more than {MOST_BODY} bytes"),
    ],
)
def test_what_is_no_answer_is_one_failed_question(answer, said):
    with talking([answer, says("well")], retries=1) as (server, model):
        error = ask_one(model)
        assert error.kind == "reply" and said in str(error) and str(error).isprintable()
        assert ask_one(model) == Reply("well") and len(server.requests) == 2


@pytest.mark.parametrize(
    "usage,counted",
    [
        (b'{"prompt_tokens": null, "completion_tokens": 5}', (0, 5)),
        (b'{"prompt_tokens": %s, "completion_tokens": 5}' % (b"9" * 400), (0, 0)),
        (b'{"prompt_tokens": -1}', (0, 0)),
        (b'{"prompt_tokens": "many"}', (0, 0)),
        (b"null", (0, 0)),
        (b"[]", (0, 0)),
    ],
)
def test_an_answer_with_a_bill_that_can_not_be_is_an_answer(usage, counted):
    body = b'{"choices": [{"message": {"content": "x"}}], "usage": %s}' % usage
    with talking([sends(body)]) as (_, model):
        assert ask_one(model) == Reply("x")
        use = model.take_use()["test"]
        assert (use.prompt_tokens, use.completion_tokens, use.failures) == (*counted, 0)


@pytest.mark.parametrize("status,kind", [(403, "question"), (404, "question"), (401, "status")])
def test_a_denial_after_an_answer_is_one_failed_question(status, kind):
    with talking([says("a"), fails(status, "flagged"), says("b")]) as (_, model):
        first, denied, last = (ask_one(model) for _ in range(3))
        assert (first, last) == (Reply("a"), Reply("b"))
        assert denied.kind == kind and f"{status}" in str(denied) and "flagged" in str(denied)


def test_a_denial_before_the_first_answer_waits_for_what_else_is_under_way():
    both, denied = threading.Barrier(2), threading.Event()

    def answer(handler, request):
        both.wait(10)
        if "bad" in request["messages"][0]["content"]:
            handler.send(403, {"error": {"message": "flagged"}})
            denied.set()
        else:
            denied.wait(10)
            handler.send(200, completion("x"))

    with talking([answer]) as (_, model):
        error, reply = model.ask([question("bad"), question("good")], "test")
        assert error.kind == "question" and reply == Reply("x")


def test_a_denial_ends_the_run_when_what_else_was_under_way_has_failed():
    def answer(request):
        return fails(403 if "bad" in request["messages"][0]["content"] else 500)

    with talking(answer) as (_, model), pytest.raises(RemoteSetupError, match="403"):
        model.ask([question("bad"), question("good")], "test")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_neither_key_nor_question_follows_a_redirect(status, key):
    with serving([says("x")]) as other, talking([moves(status, other.url)], **key) as (_, model):
        with pytest.raises(RemoteSetupError, match=f"{status} to ask {other.url} instead"):
            ask_one(model)
        assert other.requests == []


def test_a_server_that_drips_is_given_up_at_the_deadline():
    with talking([drips], deadline_s=0.3) as (_, model):
        error = ask_one(model)
        assert error.kind == "timeout" and "remote.deadline_s=0.3" in str(error)


def test_a_server_that_takes_connections_and_does_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        with RemoteModel(dataclasses.replace(SETTINGS, base_url=url, timeout_s=0.2)) as model:
            error = ask_one(model)
    assert error.kind == "timeout" and "remote.timeout_s=0.2" in str(error)
