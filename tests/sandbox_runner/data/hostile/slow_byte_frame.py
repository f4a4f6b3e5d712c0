"""Dribbles its answer into the socket, byte by byte with pauses, to keep the pool waiting."""
import os, sys, time

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
        for byte in protocol.encode(protocol.Stepped(number, "s" * 60_000, 0.0, False, False)):
            os.write(3, bytes([byte]))
            time.sleep(0.0005)
        return "sent", 0.0, False, False, {}
