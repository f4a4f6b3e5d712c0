"""Creates a file with openat2 and creat: a filter that only knows openat's flags misses both."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
OPENAT2, CREAT, HERE, PATH = 437, 85, -100, b"/tmp/hostile_openat2"

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        if os.uname().machine not in ("x86_64", "aarch64"):
            return "refused: unsupported machine", 0.0, False, False, {}
        how = (ctypes.c_uint64 * 3)(os.O_WRONLY | os.O_CREAT, 0o600, 0)
        descriptor = LIBC.syscall(OPENAT2, HERE, PATH, how, ctypes.c_size_t(24))
        if descriptor < 0 and os.uname().machine == "x86_64":
            descriptor = LIBC.syscall(CREAT, PATH, 0o600)
        code = ctypes.get_errno()
        if descriptor < 0:
            return refused(code), 0.0, False, False, {}
        os.unlink(PATH)
        return f"ESCAPED: wrote {PATH.decode()}", 0.0, False, False, {}
