"""The child's loop: frames in, guarded calls, frames out. Ends when the pool goes away."""

from __future__ import annotations

import os
import time
import types

from sandbox_runner import protocol
from sandbox_runner.program import Program, over_budget
from sandbox_runner.types import EnvError, Limits

CONNECTION = 3  # the descriptor of the socket to the pool
_DETAIL = 1000  # characters of a failure's detail


def serve(descriptor: int, limits: Limits, module: types.ModuleType) -> None:
    """Answer requests on the connected socket `descriptor` until its other end is closed."""
    program = Program(limits, module)
    inbox = protocol.Inbox()
    while data := os.read(descriptor, 1 << 18):
        inbox.add(data)
        while (body := inbox.take()) is not None:
            answer = memoryview(_answer(program, protocol.decode_request(body), limits))
            while answer:
                answer = answer[os.write(descriptor, answer) :]
    os._exit(0)


def _answer(program: Program, request: protocol.Request, limits: Limits) -> bytes:
    try:
        return protocol.encode(_run(program, request))
    except EnvError as error:
        return protocol.encode(protocol.Failed(request.id, error.stage, error.detail[:_DETAIL]))
    except protocol.ProtocolError:
        detail = "the observations of the episodes are too long to report"
        return protocol.encode(protocol.Failed(request.id, "limits", detail))
    except MemoryError as error:
        full = over_budget("the environment", error, limits)
        return protocol.encode(protocol.Failed(request.id, full.stage, full.detail))


def _run(program: Program, request: protocol.Request) -> protocol.Answer:
    match request:
        case protocol.Step(id, session, action):
            return protocol.Stepped(id, *program.step(session, action))
        case protocol.Reset(id, session, seed):
            return protocol.Text(id, program.reset(session, seed))
        case protocol.Solution(id, session):
            return protocol.Text(id, program.solution(session))
        case protocol.Open(id, session, source, max_turns):
            program.open(session, source, max_turns)
            return protocol.Done(id)
        case protocol.Close(id, session):
            program.close(session)
            return protocol.Done(id)
        case protocol.Play(id):
            before = time.process_time()
            transcripts, calls = program.play(request)
            return protocol.Played(id, transcripts, time.process_time() - before, calls)
