"""Puts a filter that allows everything over the filter, and sees whether it can have a socket."""
import ctypes, os, socket

LIBC = ctypes.CDLL(None, use_errno=True)
SET_SECCOMP, RETURN, ALLOW = 22, 0x06, 0x7FFF0000

class Instructions(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("at", ctypes.c_void_p)]

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        number = {"x86_64": 317, "aarch64": 277}.get(os.uname().machine)
        if number is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        allow_all = (ctypes.c_uint32 * 2)(RETURN, ALLOW)
        program = Instructions(1, ctypes.addressof(allow_all))
        LIBC.syscall(number, 1, 0, ctypes.byref(program))
        LIBC.prctl(SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(program))
        try:
            socket.socket(socket.AF_UNIX).close()
        except OSError as error:
            return f"refused: {type(error).__name__} {error.errno}", 0.0, False, False, {}
        return "ESCAPED: a socket", 0.0, False, False, {}
