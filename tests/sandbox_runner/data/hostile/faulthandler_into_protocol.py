"""Points faulthandler at the protocol's socket: every fatal signal prints there, also by itself."""
import faulthandler, os, signal

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        faulthandler.enable(file=3, all_threads=True)
        faulthandler.register(signal.SIGALRM, file=3)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        return "armed: the next lines come while nobody asks", 0.0, False, False, {}
