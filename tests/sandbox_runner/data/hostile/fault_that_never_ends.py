"""Handles SIGSEGV in Python: the fault repeats for ever and the handler never gets to run."""
import ctypes, signal

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGTERM, signal.SIGXCPU):
            signal.signal(number, lambda *_: None)
        ctypes.memset(64, 1, 8)
        return "survived", 0.0, False, False, {}
