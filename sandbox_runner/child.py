"""The child's loop: frames in, guarded calls, frames out. Ends when the pool goes away."""

from __future__ import annotations

import os
import sys
import time
import types

from sandbox_runner import protocol
from sandbox_runner.program import Program, over_budget
from sandbox_runner.types import EnvError, Limits, RunnerError

CONNECTION = 3  # the descriptor of the socket to the pool
_DETAIL = 1000  # characters of a failure's detail
_REHEARSALS = 30
_TRUSTED = """
class CountEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        self.goal, self.turn = random.Random(seed).randint(1, 9), 0
        random.seed(seed)
        return f"Which number from 1 to 9? {random.random()}", {}
    def solution(self):
        return str(self.goal)
    def step(self, action):
        self.turn += 1
        right = str(self.goal) in re.findall(r"\\boxed\\{(.*)\\}", action)
        return f"turn {self.turn}", float(right), right, self.turn >= self.max_turns, {}
"""


def serve(descriptor: int, limits: Limits, module: types.ModuleType) -> None:
    """Answer requests on the connected socket `descriptor` until its other end is closed."""
    program = Program(limits, module)
    inbox = protocol.Inbox()
    while data := os.read(descriptor, 1 << 16):
        inbox.add(data)
        while (body := inbox.take()) is not None:
            answer = memoryview(_answer(program, protocol.decode_request(body), limits))
            while answer:
                answer = answer[os.write(descriptor, answer) :]
    os._exit(0)


def rehearse(limits: Limits, module: types.ModuleType) -> None:
    """Play a small trusted program in the calling process, a zygote, with a copy of `module`.

    Python rewrites code that has run a few times, and fills caches. What a zygote has rewritten its
    children share; what a child rewrites it must copy first, page by page.
    """
    streams = sys.stdin, sys.stdout, sys.stderr
    requests = [protocol.Open(0, 1, _TRUSTED, 5), protocol.Reset(1, 1, 7), protocol.Solution(2, 1)]
    requests += [protocol.Step(turn, 1, r"\boxed{3}") for turn in range(3, 8)]
    for _ in range(_REHEARSALS):
        stage = types.ModuleType(module.__name__)
        vars(stage).update(vars(module))
        program, inbox = Program(limits, stage), protocol.Inbox()
        for request in requests:
            inbox.add(protocol.encode(request))
            answer = _answer(program, protocol.decode_request(inbox.take()), limits)
            inbox.add(answer)
            told = protocol.decode_answer(inbox.take(), type(request))
            if isinstance(told, protocol.Failed):
                raise RunnerError(f"the rehearsal failed: {told.detail}")
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.modules[module.__name__] = module


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
            return protocol.Started(id, *program.reset(session, seed))
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
