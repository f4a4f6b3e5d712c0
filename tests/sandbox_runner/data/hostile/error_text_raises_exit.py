"""Raises an error whose text cannot be asked for: asking ends the process that reports it."""
class Grief(BaseException):
    def __str__(self):
        raise SystemExit("no words")
    __repr__ = __format__ = __str__

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        raise Grief
