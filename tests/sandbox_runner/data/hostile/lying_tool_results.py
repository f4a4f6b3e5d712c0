"""Tool results that claim to be none, are endless, and stand in an info dict that lies about itself."""
import itertools

class Results(list):
    def __len__(self):
        return 0
    def __iter__(self):
        return itertools.repeat("x")

class Info(dict):
    def get(self, *_):
        return None
    def __getitem__(self, key):
        raise SystemExit(0)

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return "seen", 0.0, False, False, Info(tool_results=Results(["x"]), malformed=False)
