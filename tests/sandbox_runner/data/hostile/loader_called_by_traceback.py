"""Has its own code called while the runner formats a traceback, by posing as a source loader."""
import os, signal

class Loader:
    def get_source(self, name):
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(3, b"\x00\x00\x00\x02hi")
        raise KeyboardInterrupt("from the loader")

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        names = {"__name__": "elsewhere", "__loader__": Loader()}
        exec(compile("raise ValueError('look here')", "/elsewhere.py", "exec"), names)
