"""Watches folders that it may not read: events tell when other sessions or users touch files."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
CALLS = {"x86_64": (294, 254, 300), "aarch64": (26, 27, 262)}
ALL_EVENTS = 0xFFF

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        numbers = CALLS.get(os.uname().machine)
        if numbers is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        start, add, everything = numbers
        watcher, system = LIBC.syscall(start, 0), LIBC.syscall(everything, 0, 0)
        code = ctypes.get_errno()
        got = [path for path in ("/tmp", "/root", "/proc")
               if watcher >= 0 and LIBC.syscall(add, watcher, path.encode(), ALL_EVENTS) >= 0]
        got += ["all of it"] if system >= 0 else []
        return f"ESCAPED: {got}" if got else refused(code), 0.0, False, False, {}
