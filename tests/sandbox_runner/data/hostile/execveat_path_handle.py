"""Executes a program through an O_PATH handle, which needs no right to read it.

The argument list is a bad pointer: only a kernel that lets it execute gets as far as EFAULT.
"""
import ctypes, errno, os, sys

LIBC = ctypes.CDLL(None, use_errno=True)
EMPTY_PATH = 0x1000

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        number = {"x86_64": 322, "aarch64": 281}.get(os.uname().machine)
        if number is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
        paths = ["/bin/true", sys.executable] + [path for path in files if path.endswith(".so")]
        path = next((path for path in paths if os.path.exists(path)), "/")
        handle = os.open(path, os.O_PATH)
        LIBC.syscall(number, handle, b"", ctypes.c_void_p(1), None, EMPTY_PATH)
        code = ctypes.get_errno()
        os.close(handle)
        report = "ESCAPED: may execute" if code == errno.EFAULT else refused(code)
        return report, 0.0, False, False, {}
