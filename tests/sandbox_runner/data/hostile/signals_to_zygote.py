"""Reaches its parent by every call but kill(2); with SIGKILL, not 0, all children would die."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
CALLS = {"x86_64": (200, 234, 129, 297), "aarch64": (130, 131, 138, 240)}
SI_QUEUE = -1

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        numbers = CALLS.get(os.uname().machine)
        if numbers is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        tkill, tgkill, queue, queue_thread = numbers
        parent, forged = os.getppid() or 1, (ctypes.c_int * 32)(0, 0, SI_QUEUE)
        attempts = ((tkill, parent, 0), (tgkill, parent, parent, 0), (queue, parent, 0, forged),
                    (queue_thread, parent, parent, 0, forged))
        got = [attempt[0] for attempt in attempts if LIBC.syscall(*attempt) == 0]
        report = f"ESCAPED: signalled by {got}" if got else refused(ctypes.get_errno())
        return report, 0.0, False, False, {}
