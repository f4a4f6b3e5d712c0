"""Booby-traps its class: every look at its module, name, methods or signature runs its code."""
class Trap:
    def __eq__(self, other):
        raise GeneratorExit("compared")
    __hash__ = object.__hash__

class Meta(type):
    armed = False
    def __getattribute__(cls, name):
        if Meta.armed and name == "__module__":
            return Trap()
        if Meta.armed and name in ("__signature__", "__mro__", "reset", "__name__"):
            raise KeyboardInterrupt(name)
        return type.__getattribute__(cls, name)
    def __subclasscheck__(cls, other):
        raise SystemExit("asked about ancestors")
    def __hash__(cls):
        raise RuntimeError("asked for a hash")

class HostileEnv(metaclass=Meta):
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return "untouched", 0.0, False, False, {}

Meta.armed = True
