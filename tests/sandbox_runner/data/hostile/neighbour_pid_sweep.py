"""Tries to signal the processes forked just before and after it: other programs' children."""
import os

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        me, got, refusal = os.getpid(), [], None
        for pid in range(max(2, me - 40), me + 40):
            if pid == me:
                continue
            for send in (os.kill, os.killpg):
                try:
                    send(pid, 0)
                    got.append(pid)
                except OSError as error:
                    refusal = error
        report = f"refused: {type(refusal).__name__} {refusal.errno}"
        return f"ESCAPED: {got}" if got else report, 0.0, False, False, {}
