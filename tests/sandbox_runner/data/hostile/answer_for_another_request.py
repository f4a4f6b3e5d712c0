"""Sends an answer under the number of a request it was not asked: another session's result."""
import os, sys

def present_request():
    frame = sys._getframe()
    while not hasattr(frame.f_locals.get("request"), "id"):
        frame = frame.f_back
    return frame.f_locals["request"]

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        protocol = sys.modules["sandbox_runner.protocol"]
        for number in (present_request().id + 1, present_request().id - 1, -1, 2**63):
            stolen = protocol.Stepped(number, "not asked", 10.0, True, False)
            os.write(3, protocol.encode(stolen))
        return "asked", 0.0, False, False, {}
