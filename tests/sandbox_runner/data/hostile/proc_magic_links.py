"""Walks through the links of /proc, which lead around path rules, to files and other memories."""
import os

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        parent, got, refusal = os.getppid() or 1, [], None
        paths = ["/proc/self/root/etc/passwd", "/proc/thread-self/root/etc/passwd",
                 "/proc/1/root/etc/passwd", f"/proc/{parent}/root/etc/passwd",
                 f"/proc/{parent}/cwd/../etc/passwd", f"/proc/{parent}/fd/1",
                 f"/proc/{parent}/mem", f"/proc/{parent}/maps", "/proc/self/mem"]
        for path in paths:
            try:
                with open(path, "rb", buffering=0) as file:
                    got.append((path, len(file.read(8))))
            except OSError as error:
                refusal = error
        report = f"refused: {type(refusal).__name__} {getattr(refusal, 'errno', None)}"
        return f"ESCAPED: opened {got}" if got else report, 0.0, False, False, {}
