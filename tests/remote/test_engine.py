"""A server's model in the one episode loop."""

import contextlib

import pytest

from spade_jax.remote import RemoteEngine, RemoteModel, RemoteSettings, RemoteSetupError
from spade_jax.rollout import Feedback, ImmediateWorld, PlaySettings, Task, play
from spade_jax.text import Message
from tests.remote.server import fails, says, sends, serving

SETTINGS = PlaySettings(0.5, 3, 9)


class Counting(ImmediateWorld):
    """Ends at the action of the task's place; says the number of the turn until then."""

    def __init__(self):
        super().__init__()
        self.turns = {}

    def first(self, task):
        self.turns[task] = 0
        return Feedback("begin")

    def answer(self, task, reply):
        self.turns[task] += 1
        won = reply == task.place
        return Feedback(f"turn {self.turns[task]}", float(won), terminated=won)


@contextlib.contextmanager
def playing(answers, **settings):
    with serving(answers) as server:
        how = RemoteSettings(server.url, "m", timeout_s=30.0, retries=0, **settings)
        with RemoteModel(how) as model:
            yield server, RemoteEngine(model, "yardstick")


def task(place, seed=0):
    return Task(place, 0, seed, SETTINGS)


def said(request):
    return [(message["role"], message["content"]) for message in request["messages"]]


def test_each_turn_sends_the_whole_conversation():
    with playing([says("a"), says("b")]) as (server, engine):
        (episode,) = play(engine, engine.chat, Counting(), [task("b", seed=7)])
    assert episode.outcome == "terminated" and episode.final_return == 1.0
    assert said(server.requests[0]) == [("user", "begin")]
    assert said(server.requests[1]) == [
        ("user", "begin"), ("assistant", "a"), ("user", "turn 1")
    ]  # fmt: skip
    assert [(r["temperature"], r["max_tokens"], r["seed"]) for r in server.requests] == [
        (0.5, 9, 7)
    ] * 2
    assert [message.content for message in episode.transcript] == [
        "begin", "a", "turn 1", "b", "turn 2"
    ]  # fmt: skip


def test_system_messages_are_sent_as_such():
    with playing([says("x")]) as (server, engine):
        place = Task("x", 0, 0, SETTINGS, (Message("system", "rules"),))
        play(engine, engine.chat, Counting(), [place])
        assert said(server.requests[0])[0] == ("system", "rules")


def test_many_episodes_are_played_side_by_side_and_keep_apart():
    def answer(request):
        return says("go" if len(request["messages"]) < 5 else "end")

    with playing(answer, max_concurrency=3) as (server, engine):
        episodes = play(engine, engine.chat, Counting(), [task("end") for _ in range(6)])
    assert [episode.replies for episode in episodes] == [["go", "go", "end"]] * 6
    assert all(episode.final_return == 1.0 for episode in episodes)


def test_the_turn_budget_truncates():
    with playing([says("wrong")]) as (server, engine):
        (episode,) = play(engine, engine.chat, Counting(), [task("right")])
    assert episode.outcome == "truncated" and len(server.requests) == SETTINGS.max_turns


def test_a_reply_at_its_limit_is_a_cut_episode():
    with playing([says("long", finish="length")]) as (_, engine):
        (episode,) = play(engine, engine.chat, Counting(), [task("x")])
    assert (episode.outcome, episode.replies, episode.final_return) == ("cut", ["long"], 0.0)


@pytest.mark.parametrize("failure", [fails(500), fails(403), sends(b'{"x":' + b"[" * 100_000)])
def test_without_an_answer_the_episode_ends_by_deadline(failure):
    with playing([says("a"), failure]) as (_, engine):
        (episode,) = play(engine, engine.chat, Counting(), [task("x")])
    assert (episode.outcome, episode.replies) == ("deadline", ["a"])


def test_a_denied_key_is_raised_and_nothing_stays_open():
    with playing([fails(401)]) as (_, engine):
        with pytest.raises(RemoteSetupError):
            play(engine, engine.chat, Counting(), [task("x"), task("x")])
        assert not engine.running
