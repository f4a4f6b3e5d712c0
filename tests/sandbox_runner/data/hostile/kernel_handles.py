"""Opens the kernel's rich interfaces: a BPF map, a counter on its parent, a page fault handler."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
CALLS = {"x86_64": (321, 298, 323), "aarch64": (280, 241, 282)}
SOFTWARE, ARRAY, USER_MODE_ONLY = 1, 2, 1

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
        bpf, perf, faults = numbers
        array = (ctypes.c_uint32 * 18)(ARRAY, 4, 8, 1)
        counter = (ctypes.c_uint32 * 28)(SOFTWARE, 112)
        attempts = {"bpf": (bpf, 0, array, 72), "userfaultfd": (faults, USER_MODE_ONLY),
                    "perf": (perf, counter, os.getppid() or 1, -1, -1, ctypes.c_ulong(0))}
        got = [name for name, attempt in attempts.items() if LIBC.syscall(*attempt) >= 0]
        code = ctypes.get_errno()
        return f"ESCAPED: {got}" if got else refused(code), 0.0, False, False, {}
