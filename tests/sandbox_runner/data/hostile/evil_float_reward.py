"""Returns a reward whose conversion to a plain number never ends; that happens outside the call."""
class Weight(float):
    def __float__(self):
        while True:
            try:
                sum(range(1000))
            except BaseException:
                pass

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        return "heavy", Weight(1.0), False, False, {}
