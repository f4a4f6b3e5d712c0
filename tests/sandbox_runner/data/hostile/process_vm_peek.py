"""Reads the zygote's memory at an address it shares with it; all children's start could be read."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)

class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        number = {"x86_64": 310, "aarch64": 270}.get(os.uname().machine)
        if number is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        room = ctypes.create_string_buffer(64)
        here, there = Span(ctypes.addressof(room), 64), Span(id(os), 64)
        one = ctypes.c_ulong(1)
        copied = LIBC.syscall(number, os.getppid() or 1, ctypes.byref(here), one,
                              ctypes.byref(there), one, ctypes.c_ulong(0))
        code = ctypes.get_errno()
        report = f"ESCAPED: {copied} bytes" if copied > 0 else refused(code)
        return report, 0.0, False, False, {}
