"""Returns text of 5 MB that says of itself that it is short and plain: size checks would pass."""
class Text(str):
    def __len__(self):
        return 3
    def isascii(self):
        return True
    def encode(self, *arguments):
        return b"abc"
    def __str__(self):
        return "abc"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return Text("\u00e4" * 2_500_000), 0.0, False, False, {}
