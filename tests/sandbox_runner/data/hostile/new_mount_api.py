"""Builds a file tree of its own with the newer mount calls, which need no path to be watched."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
OPEN_TREE, FSOPEN, FSPICK, HERE, CLONE = 428, 430, 433, -100, 1

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
        got = []
        for attempt in ((FSOPEN, b"tmpfs", 0), (OPEN_TREE, HERE, b"/", CLONE),
                        (FSPICK, HERE, b"/", 0)):
            descriptor = LIBC.syscall(*attempt)
            if descriptor >= 0:
                got.append(attempt[0])
                os.close(descriptor)
        code = ctypes.get_errno()
        report = f"ESCAPED: by calls {got}" if got else refused(code)
        return report, 0.0, False, False, {}
