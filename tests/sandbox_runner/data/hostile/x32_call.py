"""Asks for a socket under its x32 number, which a filter for plain x86-64 numbers does not know."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
X32, SOCKET = 0x40000000, 41

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        if os.uname().machine != "x86_64":
            return "refused: unsupported machine", 0.0, False, False, {}
        descriptor = LIBC.syscall(ctypes.c_long(X32 | SOCKET), 1, 1, 0)
        code = ctypes.get_errno()
        report = "ESCAPED: a socket" if descriptor >= 0 else refused(code)
        return report, 0.0, False, False, {}
