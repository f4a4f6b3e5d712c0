"""Leaves timers that fire all the time and interrupt the runner while it answers and waits."""
import signal

NAMES = {signal.SIGALRM: signal.ITIMER_REAL, signal.SIGVTALRM: signal.ITIMER_VIRTUAL}

def again(number, frame):
    signal.setitimer(NAMES[number], 1e-6, 1e-6)

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        for number in NAMES:
            signal.signal(number, again)
            again(number, None)
        return "the storm is on", 0.0, False, False, {}
