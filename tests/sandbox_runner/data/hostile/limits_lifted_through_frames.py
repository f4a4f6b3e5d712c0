"""Finds the runner's objects in its callers' frames, lifts every limit and answers with 8 MiB."""
import signal, sys

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        frame = sys._getframe()
        while not hasattr(frame.f_locals.get("self"), "_limits"):
            frame = frame.f_back
        program = frame.f_locals["self"]
        program._printed.left = 1 << 60
        for name in ("observation_bytes", "call_cpu", "print_bytes", "memory_bytes"):
            object.__setattr__(program._limits, name, 1 << 40)
        signal.setitimer(signal.ITIMER_PROF, 0)
        return "A" * (8 << 20), 0.0, False, False, {}
