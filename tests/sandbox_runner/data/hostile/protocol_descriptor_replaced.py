"""Puts another file in the socket's place and hides the socket: no answer, and no end of it."""
import os

HIDDEN = []

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        HIDDEN.append(os.dup(3))
        os.close(3)
        HIDDEN.append(os.dup(0))
        return "to nobody", 0.0, False, False, {}
