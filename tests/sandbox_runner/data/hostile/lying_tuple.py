"""Returns a tuple that claims five parts and yields parts without end when it is unpacked."""
import itertools

class Parts(tuple):
    def __len__(self):
        return 5
    def __iter__(self):
        return itertools.repeat(0.5)
    def __getitem__(self, index):
        raise SystemExit(0)

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return Parts()
