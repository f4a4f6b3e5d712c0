"""Clones itself by bare system calls, past libc's fork: a child would outlive every deadline."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
SIGCHLD = 17

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        plan = (ctypes.c_uint64 * 8)(0, 0, 0, 0, SIGCHLD)
        clone = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
        if clone is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        for number, arguments in ((435, (plan, 64)), (clone, (SIGCHLD, None, None, None, None))):
            pid = LIBC.syscall(number, *arguments)
            if pid == 0:
                os._exit(0)
            if pid > 0:
                return f"ESCAPED: child process {pid}", 0.0, False, False, {}
        return refused(ctypes.get_errno()), 0.0, False, False, {}
