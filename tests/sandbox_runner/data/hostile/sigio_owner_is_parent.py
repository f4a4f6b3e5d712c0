"""Makes its parent the owner of a socket, so that the kernel sends signals in its place."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
F_SETOWN, F_SETSIG, F_SETOWN_EX, OWNER_PID = 8, 10, 15, 1

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        owner = (ctypes.c_int * 2)(OWNER_PID, os.getppid() or 1)
        owned = LIBC.fcntl(3, F_SETOWN, os.getppid() or 1) == 0
        owned = LIBC.fcntl(3, F_SETOWN_EX, owner) == 0 or owned
        code = ctypes.get_errno()
        if owned:
            chosen = LIBC.fcntl(3, F_SETSIG, 9) == 0
            LIBC.fcntl(3, F_SETOWN, 0)
            return f"ESCAPED: parent owns it, SIGKILL chosen: {chosen}", 0.0, False, False, {}
        return refused(code), 0.0, False, False, {}
