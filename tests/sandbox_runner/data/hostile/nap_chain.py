"""Holds its caller up with endless tiny sleeps, so that no single wait and no CPU use is long."""
import time

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        while True:
            time.sleep(0.001)
