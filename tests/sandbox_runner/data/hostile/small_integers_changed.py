"""Makes the cached integer 4 a 7 for the whole interpreter: lengths and offsets come out wrong."""
import ctypes

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        ctypes.c_uint32.from_address(id(4) + 24).value = 7
        return "four", 0.0, False, False, {}
