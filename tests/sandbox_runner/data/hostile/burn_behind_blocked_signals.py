"""Burns CPU after blocking every signal, ignoring SIGPROF and stopping the runner's own timer."""
import signal

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_PROF, 0)
        while True:
            try:
                sum(range(10_000))
            except BaseException:
                continue
