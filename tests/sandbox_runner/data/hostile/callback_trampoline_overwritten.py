"""Overwrites the machine code behind a ctypes callback: if it may, it can run any instruction."""
import ctypes, os

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return_42 = {"x86_64": bytes.fromhex("b82a000000c3"),
                     "aarch64": bytes.fromhex("40058052c0035fd6")}.get(os.uname().machine)
        if return_42 is None:
            return "refused: unsupported machine", 0.0, False, False, {}
        kind = ctypes.CFUNCTYPE(ctypes.c_int)
        try:
            callback = kind(lambda: 1)
        except (MemoryError, OSError) as error:
            return f"refused: {type(error).__name__} None", 0.0, False, False, {}
        entry = ctypes.cast(callback, ctypes.c_void_p).value
        ctypes.memmove(entry, return_42, len(return_42))
        value = kind(entry)()
        report = "ESCAPED: own machine code ran" if value == 42 else "refused: code unchanged"
        return report, 0.0, False, False, {}
