"""A model behind a server, and every way in which the server fails."""

import dataclasses
import sys
import threading

import circuitbreaker
import pytest

from spade_jax.remote import (
    Prices,
    Question,
    RemoteError,
    RemoteModel,
    RemoteSetupError,
    Reply,
    use_metrics,
)
from spade_jax.text import Message
from tests.remote.server import closes, completion, fails, hangs, says, sends, serving
from tests.remote.talk import SETTINGS, ask_one, question, talking


def test_a_question_arrives_whole_and_its_answer_is_counted():
    with talking([says("hi", prompt_tokens=7, completion_tokens=3)]) as (server, model):
        messages = (Message("system", "s"), Message("user", "u"), Message("tool", "t"))
        (answer,) = model.ask([Question(messages, 16, 0.3, seed=5, top_p=0.9)], "hint")
        assert answer == Reply("hi")
        (request,) = server.requests
        assert [(m["role"], m["content"]) for m in request["messages"]] == [
            ("system", "s"), ("user", "u\n<tool_response>\nt\n</tool_response>"),
        ]  # fmt: skip
        del request["messages"]
        assert request == {
            "model": "m", "max_tokens": 16, "temperature": 0.3, "top_p": 0.9, "seed": 5
        }  # fmt: skip
        use = model.take_use()
        assert (use["hint"].calls, use["hint"].failures) == (1, 0)
        assert (use["hint"].prompt_tokens, use["hint"].completion_tokens) == (7, 3)
        assert model.take_use() == {}


def test_a_server_gets_only_the_fields_that_it_knows():
    with talking([says("hi")], fields=("max_completion_tokens",)) as (server, model):
        ask_one(model)
        assert {*server.requests[0]} == {"model", "messages", "max_completion_tokens"}


def test_an_answer_that_hit_its_limit_is_cut():
    with talking([says("hi", finish="length")]) as (_, model):
        assert ask_one(model) == Reply("hi", cut=True)


def test_answers_come_in_the_order_of_the_questions():
    def echo(request):
        return says(request["messages"][0]["content"].upper())

    with talking(echo) as (_, model):
        answers = model.ask([question(f"q{k}") for k in range(20)], "test")
    assert [answer.text for answer in answers] == [f"Q{k}" for k in range(20)]


def test_no_more_are_under_way_than_allowed():
    gate = threading.Barrier(3)

    def together(handler, request):
        gate.wait(10)  # breaks unless three are under way
        handler.send(200, completion("x"))

    with talking(lambda request: together, max_concurrency=3) as (server, model):
        answers = model.ask([question()] * 9, "test")
        assert answers == [Reply("x")] * 9 and server.most_under_way == 3


@pytest.mark.parametrize(
    "answer,kind,says_",
    [
        (fails(500, "out of memory"), "status", "500.*out of memory"),
        (fails(429, "slow down"), "status", "429.*slow down"),
        (fails(400, "too long"), "question", "400.*too long"),
        (closes, "connection", "disconnected"),
        (sends(b"<html>not json"), "reply", "malformed.*html"),
        (sends(b'{"choices": []}'), "reply", "without choices"),
        (sends(b'{"choices": [{"text": "old"}]}'), "reply", "message"),
        (sends(b'{"choices": [{"message": {"content": ["part"]}}]}'), "reply", "content"),
        (sends(b""), "reply", "truncated"),
    ],
)
def test_every_failure_is_a_value_with_its_kind(answer, kind, says_):
    with talking([answer]) as (_, model):
        error = ask_one(model)
        assert isinstance(error, RemoteError) and error.kind == kind
        with pytest.raises(RemoteError, match=says_):
            raise error
        assert model.take_use()["test"].failures == 1


def test_an_answer_without_text_is_an_empty_one():
    with talking([sends(b'{"choices": [{"message": {"content": null}}]}')]) as (_, model):
        assert ask_one(model) == Reply("")


@pytest.mark.parametrize("limit", ["timeout_s", "deadline_s"])
def test_a_server_that_hangs_is_given_up(limit):
    with talking([hangs], **{limit: 0.2}) as (_, model):
        error = ask_one(model)
        assert error.kind == "timeout" and f"remote.{limit}=0.2" in str(error)


def test_a_server_that_nobody_runs_is_a_lost_connection():
    with serving([says("x")]) as server:
        url = server.url
    with RemoteModel(dataclasses.replace(SETTINGS, base_url=url)) as model:
        assert ask_one(model).kind == "connection"


def test_what_passes_is_tried_again():
    soon = [("retry-after-ms", "10")]
    failures = [fails(500, headers=soon), fails(429, headers=soon)]
    with talking([*failures, says("at last")], retries=2) as (server, model):
        assert ask_one(model) == Reply("at last")
        use = model.take_use()["test"]
        assert len(server.requests) == 3
        assert (use.calls, use.failures, use.retries) == (1, 0, 2)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_denied_key_or_model_stops_the_run_and_is_not_quoted(status, monkeypatch):
    monkeypatch.setenv("A_KEY", "secret-123")
    answers = [fails(status, "no such key secret-123")]
    with talking(answers, key_variable="A_KEY", retries=3) as (server, model):
        with pytest.raises(RemoteSetupError, match=rf"remote.model='m'.*{status}") as caught:
            ask_one(model)
        assert "secret" not in str(caught.value) and len(server.requests) == 1
        assert server.headers[0]["authorization"] == "Bearer secret-123"


def test_no_part_of_the_key_is_quoted_wherever_a_text_is_cut(monkeypatch):
    monkeypatch.setenv("A_KEY", "secret-123")
    texts = ["x" * before + "secret-123" for before in range(100, 210, 3)]
    answers = [answer for text in texts for answer in (fails(500, text), sends(text.encode()))]
    with talking(answers, key_variable="A_KEY", breaker_failures=len(answers) + 1) as (_, model):
        quoted = [str(ask_one(model)) for _ in answers]
    assert all("xxx" in text and "xs" not in text for text in quoted)
    assert sum("x[key]" in text for text in quoted) > len(texts) // 2


def test_nothing_of_the_environment_goes_to_the_server(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    with talking([says("x")]) as (server, model):
        ask_one(model)
        assert "another" not in str(server.headers) and "openai-project" not in server.headers[0]
        assert "openai-organization" not in server.headers[0]


def test_without_the_key_nothing_starts(monkeypatch):
    monkeypatch.delenv("A_KEY", raising=False)
    with pytest.raises(RemoteSetupError, match="remote.key_variable='A_KEY': expected"):
        RemoteModel(dataclasses.replace(SETTINGS, base_url="http://x", key_variable="A_KEY"))


@pytest.mark.parametrize("package", ["openai", "circuitbreaker"])
def test_without_the_packages_the_extra_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RemoteSetupError, match=r"pip install 'spade_jax\[remote\]'"):
        RemoteModel(SETTINGS)


def test_the_breaker_opens_after_failures_in_a_row_and_closes_again(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(circuitbreaker, "monotonic", lambda: now)
    healthy = threading.Event()

    def answer(request):
        return says("well") if healthy.is_set() else fails(500)

    limits = {"breaker_failures": 2, "breaker_s": 60.0, "max_concurrency": 1}
    with talking(answer, **limits) as (server, model):
        kinds = [error.kind for error in model.ask([question()] * 4, "test")]
        assert kinds == ["status", "status", "breaker", "breaker"] and len(server.requests) == 2
        assert model.refusing
        now += 61
        assert [error.kind for error in model.ask([question()] * 2, "test")] == [
            "status", "breaker"
        ]  # fmt: skip
        now += 61
        healthy.set()
        assert ask_one(model) == Reply("well") and not model.refusing
        healthy.clear()
        assert ask_one(model).kind == "status"
        assert not model.refusing  # the count began anew


@pytest.mark.parametrize("answer,kind", [(fails(400), "question"), (sends(b"{}"), "reply")])
def test_what_lies_in_one_question_does_not_open_the_breaker(answer, kind):
    with talking([answer], breaker_failures=1) as (_, model):
        assert [ask_one(model).kind for _ in range(3)] == [kind] * 3
        assert not model.refusing


def test_closing_gives_up_what_is_under_way():
    with serving([hangs]) as server:
        with RemoteModel(dataclasses.replace(SETTINGS, base_url=server.url)) as model:
            future = model.submit(question(), "test")
        assert future.cancelled() and not model._thread.is_alive()


def test_the_price_is_that_of_all_processes():
    with talking([says("x", prompt_tokens=100, completion_tokens=10)]) as (_, model):
        model.ask([question()], "hint")
        mine = model.take_use()
        model.ask([question()] * 2, "audit")
        metrics = use_metrics([mine, model.take_use()], Prices(2.0, 50.0))
    assert metrics["remote/calls"] == 3 and metrics["remote/failures"] == 0
    assert metrics["remote/cost"] == pytest.approx(3 * (100 * 2.0 + 10 * 50.0) / 1e6)
    assert metrics["remote/hint/cost"] == pytest.approx((100 * 2.0 + 10 * 50.0) / 1e6)
    assert metrics["remote/audit/completion_tokens"] == 20
