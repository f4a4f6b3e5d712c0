"""Schemas that go on for ever once JSON is made of them."""
import itertools

class Schema(dict):
    def items(self):
        return (("type", "function") for _ in itertools.count())

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def get_tools(self):
        return [Schema(type="function", function={"name": "f"})]
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return "seen", 0.0, False, False, {}
