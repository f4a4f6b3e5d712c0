"""Replaces builtins and library functions that the runner's checks of an answer rely on."""
import builtins, random, signal, traceback

def stuck(*arguments, **keywords):
    raise KeyboardInterrupt

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        builtins.isinstance = lambda *_: True
        builtins.float = lambda value: 1e6 if value == "ten" else 0.0
        builtins.len = lambda value: value.__len__() if type(value) is not str else 1
        random.getstate = traceback.extract_tb = signal.setitimer = stuck
        return "B" * 200_000, "ten", "yes", "no", None
