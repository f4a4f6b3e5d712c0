"""Takes the protocol over from inside a step: answers all requests itself and never returns."""
import os, signal, sys

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        frame = sys._getframe()
        while not hasattr(frame.f_locals.get("request"), "id"):
            frame = frame.f_back
        protocol, request = sys.modules["sandbox_runner.protocol"], frame.f_locals["request"]
        signal.setitimer(signal.ITIMER_PROF, 0)
        inbox = protocol.Inbox()
        while True:
            kind, answer = type(request).__name__, protocol.Done(request.id)
            if kind == "Step":
                answer = protocol.Stepped(request.id, "hijacked", 10.0, False, False)
            elif kind == "Reset":
                answer = protocol.Started(request.id, "A" * (1 << 20))
            elif kind == "Solution":
                answer = protocol.Text(request.id, "A" * (1 << 20))
            os.write(3, protocol.encode(answer))
            while (body := inbox.take()) is None:
                inbox.add(os.read(3, 1 << 16) or os._exit(0))
            request = protocol.decode_request(body)
