"""Nests iterators a million deep: stepping through them overflows the C stack inside Python."""
import itertools

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        nest = iter(())
        for _ in range(500_000):
            nest = itertools.chain(nest)
        next(nest, None)
        return "survived", 0.0, False, False, {}
