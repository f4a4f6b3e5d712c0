"""Leaves a message in the kernel's keyring of its user, which outlives it and others can read."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
USER_KEYRING, SESSION_KEYRING, REVOKE = -4, -3, 3

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        numbers = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(os.uname().machine)
        if numbers is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        add, control = numbers
        for ring in (USER_KEYRING, SESSION_KEYRING):
            key = LIBC.syscall(add, b"user", b"hostile", b"note", ctypes.c_size_t(4), ring)
            if key > 0:
                LIBC.syscall(control, REVOKE, key)
                return f"ESCAPED: key in ring {ring}", 0.0, False, False, {}
        return refused(ctypes.get_errno()), 0.0, False, False, {}
