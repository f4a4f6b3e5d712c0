"""Has the kernel retire memory as broken; the address is void, so EFAULT means that it would."""
import ctypes, errno, os

LIBC = ctypes.CDLL(None, use_errno=True)
HARDWARE_POISON, SOFT_OFFLINE, UNMAPPED = 100, 101, 0x1000

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        number = {"x86_64": 28, "aarch64": 233}.get(os.uname().machine)
        if number is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        codes = []
        for advice in (HARDWARE_POISON, SOFT_OFFLINE):
            LIBC.syscall(number, ctypes.c_void_p(UNMAPPED), ctypes.c_size_t(4096), advice)
            codes.append(ctypes.get_errno())
        allowed = errno.EFAULT in codes
        report = "ESCAPED: may poison memory" if allowed else refused(codes[0])
        return report, 0.0, False, False, {}
