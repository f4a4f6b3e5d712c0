"""Hides a list nested 60000 deep in a valid answer: skipping it could overflow the pool's stack."""
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
        plain = protocol.encode(protocol.Stepped(number, "deep", 0.0, False, False))[4:]
        one_more = bytes([plain[0] + 1]) + plain[1:]
        body = one_more + b"\x91" * 60_000 + b"\xc0"
        os.write(3, len(body).to_bytes(4, "big") + body)
        os._exit(0)
