"""The pool's side of a conversation, against a scripted other side instead of a real child."""

import os
import socket
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_runner import exchange, protocol
from sandbox_runner.child_process import Call
from sandbox_runner.types import EnvError, Limits, RunnerError


class ScriptedZygote:
    """Keeps the child's end of the socket. Its child is a process that sleeps, and is said to have
    exited with status 9; with `mute` it never answers."""

    blocked, failure, mute = False, None, False

    def __init__(self, limits, hash_seed, forked, ended):
        self._forked, self._ended = forked, ended
        self._ours, self._theirs = socket.socketpair()
        self._news = []
        self._sleeper = subprocess.Popen(["sleep", "60"])

    def fileno(self):
        return self._ours.fileno()

    def fork(self, connection):
        self.end = connection
        self._tell(self._forked, 1, self._sleeper.pid, os.pidfd_open(self._sleeper.pid))
        return 1

    def ask(self, child):
        assert child == self._sleeper.pid
        self._tell(self._ended, 2, 9 << 8)
        return 2

    def _tell(self, callback, *values):
        if not self.mute:
            self._news.append((callback, values))
            self._theirs.send(b"!")

    def handle(self):
        self._ours.recv(100)
        while self._news:
            callback, values = self._news.pop(0)
            callback(*values)

    def check(self, now):
        if self.mute:
            raise self.error()

    def error(self):
        return RunnerError("the zygote does not answer")

    def close(self):
        for connection in (self._ours, self._theirs, self.end):
            connection.close()
        self._sleeper.kill()
        self._sleeper.wait()


@pytest.fixture(autouse=True)
def scripted(monkeypatch):
    monkeypatch.setattr(exchange, "ZygoteClient", ScriptedZygote)


def answer_of(talk: exchange.Exchange, zygote: ScriptedZygote, send=lambda end: None):
    """The answer to one step, whose child's end of the socket is given to `send`."""
    call = Call(talk.start_child(zygote), protocol.Step(1, 7, "go"), 1.0)
    send(zygote.end)
    talk.submit([call])
    while call.answer is None:
        talk.turn(0.05)
    return call.answer


def conversation(sent: bytes):
    """The answer to one step when the child sends `sent` and closes."""
    talk = exchange.Exchange(Limits(call_wall=0.2))
    zygote = talk.start_zygote(0)

    def send(end):
        end.sendall(sent)
        end.shutdown(socket.SHUT_WR)

    try:
        return answer_of(talk, zygote, send)
    finally:
        talk.close()


GOOD = protocol.encode(protocol.Stepped(1, "a door", 0.5, False, False))


def test_a_valid_frame_is_the_answer():
    assert conversation(GOOD) == protocol.Stepped(1, "a door", 0.5, False, False)


def fuzz(data):
    """What arrives is random, or a good frame with bytes changed, cut short and lengthened."""
    if data.draw(st.booleans()):
        frame = bytearray(GOOD)
        for _ in range(data.draw(st.integers(1, 4))):
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(0, len(frame)))
        sent = bytes(frame[:cut]) + data.draw(st.binary(max_size=20))
    else:
        sent = data.draw(st.binary(max_size=300))
    answer = conversation(sent)
    assert isinstance(answer, protocol.Stepped | EnvError)
    if isinstance(answer, protocol.Stepped):
        assert answer.id == 1 and -10 <= answer.reward <= 10


OURS_ALONE = [HealthCheck.function_scoped_fixture]  # the fixture only replaces a class


@settings(max_examples=150, deadline=None, suppress_health_check=OURS_ALONE)
@given(st.data())
def test_bytes_and_mutated_frames_are_answers_or_the_environments_fault(data):
    fuzz(data)


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None, suppress_health_check=OURS_ALONE)
@given(st.data())
def test_twenty_thousand_of_them(data):
    fuzz(data)


@pytest.mark.parametrize("answer", [protocol.Done(1), protocol.Text(2, "x")])
def test_a_wrong_answer_is_the_environments_fault(answer):
    error = conversation(protocol.encode(answer))
    assert isinstance(error, EnvError) and error.stage == "robustness"


def test_a_child_that_exits_is_reported_with_its_status():
    error = conversation(b"")
    assert isinstance(error, EnvError) and "status 9" in error.detail


def test_a_child_that_never_appears_is_the_runners_fault(monkeypatch):
    monkeypatch.setattr(ScriptedZygote, "mute", True)
    talk = exchange.Exchange(Limits())
    answer = answer_of(talk, talk.start_zygote(0))
    talk.close()
    assert isinstance(answer, RunnerError)


def test_descriptors_are_given_back():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        conversation(b"")
    assert len(os.listdir("/proc/self/fd")) == before
