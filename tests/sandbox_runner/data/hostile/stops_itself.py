"""Stops itself with SIGSTOP, which neither uses CPU time nor sleeps in a call of its own."""
import os, signal

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        os.kill(os.getpid(), signal.SIGSTOP)
        return "somebody woke me", 0.0, False, False, {}
