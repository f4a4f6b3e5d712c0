"""Makes libc's own code writable and executable, also by the call that has protection keys."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
ALL, READ_EXECUTE, NO_KEY = 7, 5, -1

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        numbers = {"x86_64": (10, 329), "aarch64": (226, 288)}.get(os.uname().machine)
        if numbers is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        page = ctypes.c_void_p(ctypes.cast(LIBC.getpid, ctypes.c_void_p).value & ~0xFFF)
        size = ctypes.c_size_t(4096)
        for number in numbers:
            if LIBC.syscall(number, page, size, ALL, NO_KEY) == 0:
                LIBC.syscall(number, page, size, READ_EXECUTE, NO_KEY)
                return f"ESCAPED: code writable by call {number}", 0.0, False, False, {}
        return refused(ctypes.get_errno()), 0.0, False, False, {}
