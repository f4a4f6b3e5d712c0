"""Puts names with methods of their own among its globals: looking for the class runs them."""
class Name(str):
    looks = 0
    def __hash__(self):
        Name.looks += 1
        if Name.looks > 2:
            raise KeyboardInterrupt("hashed once too often")
        return str.__hash__(self)
    def __eq__(self, other):
        globals().pop("HostileEnv", None)
        return False
    def startswith(self, *arguments):
        raise SystemExit("asked how it starts")
    endswith = startswith

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return "untouched", 0.0, False, False, {}

globals()[Name("SecondEnv")] = type("SecondEnv", (), {"__module__": __name__})
