"""Frames and messages: what is whole comes through, what is not is a ProtocolError."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_runner import protocol
from sandbox_runner.checks import check_answer
from sandbox_runner.protocol import ProtocolError
from sandbox_runner.types import EnvError, Limits

REQUESTS = (protocol.Open, protocol.Reset, protocol.Step, protocol.Step, protocol.Play)
ANSWERS = (
    protocol.Done(1),
    protocol.Started(1, "a room"),
    protocol.Stepped(1, "a door", 0.5, False, True),
    protocol.Failed(1, "robustness", "step raised"),
    protocol.Played(
        1, [protocol.Transcript("a", None, [protocol.Turn("b", 0.0, True, False)])], 0.1, 2
    ),
)


@given(st.lists(st.sampled_from(ANSWERS), max_size=8), st.integers(1, 40))
def test_messages_survive_being_cut_anywhere(messages, size):
    stream = b"".join(protocol.encode(message) for message in messages)
    inbox = protocol.Inbox()
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    bodies = []
    for piece in pieces:
        inbox.add(piece)
        while (body := inbox.take()) is not None:
            bodies.append(body)
    assert not inbox
    requests = [REQUESTS[ANSWERS.index(message)] for message in messages]
    decoded = [
        protocol.decode_answer(body, request)
        for body, request in zip(bodies, requests, strict=True)
    ]
    assert decoded == messages


@given(st.binary(max_size=200), st.sampled_from(REQUESTS))
def test_arbitrary_bytes_are_an_answer_or_a_protocol_error(body, request):
    with contextlib.suppress(ProtocolError):
        assert isinstance(protocol.decode_answer(body, request), protocol.Answer)


def test_an_answer_of_another_kind_is_not_even_decoded():
    body = protocol.encode(ANSWERS[-1])[4:]
    with pytest.raises(ProtocolError):
        protocol.decode_answer(body, protocol.Step)


def test_a_small_frame_cannot_hold_a_list_that_is_large_in_memory():
    many = [protocol.Transcript("", None, [])] * 5000
    body = protocol.encode(protocol.Played(1, many, 0.0, 0))[4:]
    with pytest.raises(ProtocolError, match="4096"):
        protocol.decode_answer(body, protocol.Play)


@pytest.mark.parametrize("cpu, calls", [(float("inf"), 1), (float("nan"), 1), (-1.0, 1), (0, 99)])
def test_measurements_that_cannot_be_are_refused(cpu, calls):
    request = protocol.Play(1, [protocol.Episode(5, 0, ["a"])])
    answer = protocol.Played(1, [protocol.Transcript("a", None, [])], cpu, calls)
    with pytest.raises(ProtocolError, match="calls in"):
        check_answer(request, answer, Limits())


def test_a_length_above_the_maximum_is_refused_before_the_body_arrives():
    with pytest.raises(ProtocolError, match="4294967295 bytes"):
        inbox = protocol.Inbox()
        inbox.add(b"\xff\xff\xff\xff")
        inbox.take()


def test_a_message_above_the_maximum_is_not_encoded():
    with pytest.raises(ProtocolError, match="at most"):
        protocol.encode(protocol.Step(1, 1, "x" * (protocol.MAX_FRAME + 1)))


def test_text_that_is_not_unicode_is_not_encoded():
    with pytest.raises(ProtocolError, match="surrogate"):
        protocol.encode(protocol.Step(1, 1, "\ud800"))


@pytest.mark.parametrize(
    "answer",
    [
        protocol.Stepped(2, "another request's", 0.0, False, False),
        protocol.Stepped(1, "x", 1e9, False, False),
        protocol.Stepped(1, "x", float("nan"), False, False),
        protocol.Stepped(1, "x" * 70_000, 0.0, False, False),
    ],
    ids=["id", "reward", "nan", "size"],
)
def test_an_answer_that_does_not_fit_its_step_is_refused(answer):
    with pytest.raises(ProtocolError):
        check_answer(protocol.Step(1, 5, "go"), answer, Limits())


def test_a_reset_needs_an_observation():
    body = protocol.encode(protocol.Started(1, None))[4:]
    with pytest.raises(ProtocolError, match="Expected `str`"):
        protocol.decode_answer(body, protocol.Reset)


def test_a_script_cannot_return_more_turns_than_it_was_given():
    request = protocol.Play(1, [protocol.Episode(5, 0, [])])
    with pytest.raises(ProtocolError, match="more turns"):
        check_answer(request, ANSWERS[-1], Limits())


def test_a_failure_cannot_name_a_stage_of_its_own():
    answer = protocol.Failed(1, "accepted", "two\nlines")
    error = check_answer(protocol.Step(1, 5, "go"), answer, Limits())
    assert isinstance(error, EnvError)
    assert (error.stage, error.detail) == ("robustness", "two lines")


def test_no_message_type_carries_code_or_objects():
    schema = msgspec.json.schema(protocol.Request | protocol.Answer)
    assert "pickle" not in str(schema)
    with pytest.raises(ProtocolError):
        protocol.decode_answer(b"\x80\x04\x95", protocol.Step)  # how a pickle starts
