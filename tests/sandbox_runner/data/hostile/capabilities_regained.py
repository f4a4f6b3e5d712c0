"""Takes root's capabilities back, directly or as ambient ones: with them layers could be undone."""
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
VERSION_3, AMBIENT, RAISE, SYS_ADMIN = 0x20080522, 47, 2, 21

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        number = {"x86_64": 126, "aarch64": 91}.get(os.uname().machine)
        if number is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        header = (ctypes.c_uint32 * 2)(VERSION_3, 0)
        everything = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF, 0xFFFFFFFF, 0, 0x1FF, 0x1FF, 0])
        admin_only = (ctypes.c_uint32 * 6)(1 << SYS_ADMIN, 1 << SYS_ADMIN)
        got = [n for n, wanted in enumerate((everything, admin_only))
               if LIBC.syscall(number, header, wanted) == 0]
        zero = ctypes.c_ulong(0)
        if LIBC.prctl(AMBIENT, ctypes.c_ulong(RAISE), ctypes.c_ulong(SYS_ADMIN), zero, zero) == 0:
            got.append("ambient")
        code = ctypes.get_errno()
        return f"ESCAPED: {got}" if got else refused(code), 0.0, False, False, {}
