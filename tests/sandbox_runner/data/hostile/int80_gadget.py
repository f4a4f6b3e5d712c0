"""Jumps to an `int 0x80` that lies by chance in a library's code: a 32-bit call, here fork.

ctypes leaves the number of float arguments in eax: two of them make it the number of fork.
"""
import ctypes, os

NAMES = {None: ("abort", "qsort", "wcswidth", "malloc", "printf", "getaddrinfo", "regexec"),
         "python": ("Py_Main", "PyObject_Call", "PyLong_FromLong", "PyEval_EvalCode")}

def refused(code):
    return f"refused: {type(OSError(code, '')).__name__} {code}"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        if os.uname().machine != "x86_64":
            return "refused: unsupported machine", 0.0, False, False, {}
        for library, names in NAMES.items():
            functions = ctypes.pythonapi if library else ctypes.CDLL(None)
            at = [ctypes.cast(getattr(functions, name), ctypes.c_void_p).value for name in names]
            code = ctypes.string_at(min(at), max(at) - min(at))
            place = max(code.find(b"\xcd\x80\xc3"), code.find(b"\xcd\x80"))
            if place >= 0:
                jump = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_double, ctypes.c_double)
                pid = jump(min(at) + place)(0.0, 0.0)
                if pid == 0:
                    os._exit(0)
                report = f"ESCAPED: child {pid}" if pid > 0 else refused(-pid)
                return report, 0.0, False, False, {}
        return "refused: no such bytes", 0.0, False, False, {}
