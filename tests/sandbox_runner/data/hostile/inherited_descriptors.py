"""Looks for descriptors that its makers forgot: the zygote's socket, logs, other sessions."""
import os, stat

NULL = os.makedev(1, 3)

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        left = []
        for descriptor in range(4096):
            try:
                seen = os.fstat(descriptor)
            except OSError:
                continue
            harmless = descriptor == 3 or stat.S_ISCHR(seen.st_mode) and seen.st_rdev == NULL
            if not harmless:
                left.append((descriptor, stat.filemode(seen.st_mode)))
        return f"ESCAPED: {left}" if left else "refused: OSError 9", 0.0, False, False, {}
