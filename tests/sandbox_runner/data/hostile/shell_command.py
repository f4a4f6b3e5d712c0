"""Runs a shell. Whatever the owner may do, it could."""
import subprocess


class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        try:
            said = subprocess.check_output(["id"], text=True)
        except OSError as error:
            return f"refused: {type(error).__name__} {error.errno}", 0.0, False, False, {}
        return f"ESCAPED: {said}", 0.0, False, False, {}
