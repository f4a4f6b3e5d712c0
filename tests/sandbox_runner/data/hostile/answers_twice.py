"""Answers one request twice, so that the second answer would be taken for the next request's."""
import os, sys

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        frame = sys._getframe()
        while not hasattr(frame.f_locals.get("request"), "id"):
            frame = frame.f_back
        protocol, number = sys.modules["sandbox_runner.protocol"], frame.f_locals["request"].id
        os.write(3, protocol.encode(protocol.Stepped(number, "once", 1.0, False, False)))
        return "twice", 10.0, True, False, {}
