"""Swaps the runner's encoder, which works after all checks, for one that adds a huge reward."""
import sys

class Forger:
    def __init__(self, real):
        self.real = real
    def encode(self, message):
        if type(message).__name__ == "Stepped":
            message = type(message)(message.id, "rich", 1e300, True, False)
        return self.real.encode(message)

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        protocol = sys.modules["sandbox_runner.protocol"]
        protocol._encoder = Forger(protocol._encoder)
        return "poor", 0.0, False, False, {}
