"""Reports a failure of an unknown stage whose text drives terminals: logs could be rewritten."""
import os, sys

CLEAR, TITLE, REVERSED = "\x1b[2J\x1b[31m", "\x1b]0;owned\x07", "\u202e\x00\x9b"

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
        detail = CLEAR + TITLE + REVERSED + "A" * 60_000
        os.write(3, protocol.encode(protocol.Failed(number, TITLE, detail)))
        os._exit(0)
