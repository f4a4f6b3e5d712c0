"""Burns when the runner lets go of the info dict: after the guarded call, before the answer."""
class Ballast:
    def __del__(self):
        while True:
            pass

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return "light as a feather", 0.0, False, False, {"cargo": Ballast()}
