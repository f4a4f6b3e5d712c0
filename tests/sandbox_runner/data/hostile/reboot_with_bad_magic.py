"""Asks for a reboot with wrong magic numbers: EINVAL, not EPERM, says that it would be obeyed."""
import ctypes, errno, os

LIBC = ctypes.CDLL(None, use_errno=True)

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        number = {"x86_64": 169, "aarch64": 142}.get(os.uname().machine)
        if number is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        LIBC.syscall(number, 0, 0, 0, None)
        code = ctypes.get_errno()
        report = "ESCAPED: may reboot" if code == errno.EINVAL else refused(code)
        return report, 0.0, False, False, {}
