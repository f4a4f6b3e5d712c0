"""Raises an error whose class gives a name that no encoding can carry and no log can show."""
class Nameless(type):
    @property
    def __name__(cls):
        return "\ud800\x1b[2J" * 1000

class Trouble(Exception, metaclass=Nameless):
    pass

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        raise Trouble("trouble")
