"""Puts itself before everybody on the processor, or moves its parent, to starve the others."""
import os

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        got, refusal, parent = [], None, os.getppid() or 1
        ways = {"real time": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
                "priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
                "parent": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(0))}
        for name, way in ways.items():
            try:
                way()
                got.append(name)
            except OSError as error:
                refusal = error
        if got[:1] == ["real time"]:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        report = f"refused: {type(refusal).__name__} {getattr(refusal, 'errno', None)}"
        return f"ESCAPED: {got}" if got else report, 0.0, False, False, {}
