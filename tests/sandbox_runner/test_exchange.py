"""The pool's side of a conversation, against a scripted other side instead of a real child."""

import os
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_runner import protocol
from sandbox_runner.exchange import Call, Exchange
from sandbox_runner.types import EnvError, Limits, RunnerError


class ScriptedZygote:
    """Keeps the child's end of the socket and reports that the child exited with status 9."""

    def fork(self, connection):
        self.end = connection.dup()
        return 1

    def wait_for(self, condition):
        pass

    def status(self, pid):
        return 9 << 8


def conversation(sent: bytes):
    """The answer to one step when the child sends `sent` and closes."""
    exchange, zygote = Exchange(Limits(call_wall=0.2)), ScriptedZygote()
    try:
        child = exchange.start_child(zygote)
        call = Call(child, protocol.Step(1, 7, "go"), 1.0)
        zygote.end.sendall(sent)
        zygote.end.shutdown(socket.SHUT_WR)
        exchange.run([call])
        return call.answer
    finally:
        zygote.end.close()
        exchange.close()


GOOD = protocol.encode(protocol.Stepped(1, "a door", 0.5, False, False))


def test_a_valid_frame_is_the_answer():
    assert conversation(GOOD) == protocol.Stepped(1, "a door", 0.5, False, False)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mutated_frames_are_answers_or_the_environments_fault(data):
    frame = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    answer = conversation(bytes(frame[:cut]) + data.draw(st.binary(max_size=20)))
    assert isinstance(answer, protocol.Stepped | EnvError)
    if isinstance(answer, protocol.Stepped):
        assert answer.id == 1 and -10 <= answer.reward <= 10


@pytest.mark.parametrize("answer", [protocol.Done(1), protocol.Text(2, "x")])
def test_a_wrong_answer_is_the_environments_fault(answer):
    error = conversation(protocol.encode(answer))
    assert isinstance(error, EnvError) and error.stage == "robustness"


def test_a_child_that_exits_is_reported_with_its_status():
    error = conversation(b"")
    assert isinstance(error, EnvError) and "status 9" in error.detail


def test_a_child_that_never_appears_is_the_runners_fault():
    exchange, zygote = Exchange(Limits(call_wall=0.2)), ScriptedZygote()
    call = Call(exchange.start_child(zygote), protocol.Step(1, 7, "go"), 1.0)
    exchange.run([call])
    zygote.end.close()
    exchange.close()
    assert isinstance(call.answer, RunnerError)


def test_descriptors_are_given_back():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        conversation(b"")
    assert len(os.listdir("/proc/self/fd")) == before
