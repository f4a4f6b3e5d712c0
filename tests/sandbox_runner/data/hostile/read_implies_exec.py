"""Switches to the old personality where readable memory can be executed: mmap's flags then lie."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
READ_IMPLIES_EXEC = 0x0400000

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        number = {"x86_64": 135, "aarch64": 92}.get(os.uname().machine)
        if number is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        before = LIBC.syscall(number, ctypes.c_ulong(READ_IMPLIES_EXEC))
        code = ctypes.get_errno()
        if before < 0:
            return refused(code), 0.0, False, False, {}
        return "ESCAPED: readable memory is executable now", 0.0, False, False, {}
