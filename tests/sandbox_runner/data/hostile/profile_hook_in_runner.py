"""Leaves a profile hook behind that raises inside the runner's own functions after the call."""
import sys

def hook(frame, event, argument):
    if event == "call" and frame.f_code.co_name in ("check_step", "encode", "check_reset"):
        raise GeneratorExit("from inside the runner")

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        sys.setprofile(hook)
        return "watched", 0.0, False, False, {}
