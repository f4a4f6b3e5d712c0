"""Burns CPU as soon as somebody looks whether it has a solution or a close, before calling them."""
import signal

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def __getattr__(self, name):
        if name not in ("solution", "close"):
            raise AttributeError(name)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        while True:
            pass
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return "harmless so far", 0.0, False, False, {}
