"""Leaves a .pth or usercustomize file, which every later Python of this machine would execute."""
import os, site, sysconfig

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        refusal = None
        places = (f"{sysconfig.get_paths()['purelib']}/hostile_left.pth",
                  f"{os.path.dirname(os.__file__)}/hostile_left.pth",
                  f"{os.path.dirname(site.getuserbase())}/hostile_left.pth",
                  os.path.expanduser("~/hostile_left.pth"))
        for path in places:
            try:
                open(path, "x").close()
                os.unlink(path)
                return f"ESCAPED: wrote {path}", 0.0, False, False, {}
            except OSError as error:
                refusal = error
        return f"refused: {type(refusal).__name__} {refusal.errno}", 0.0, False, False, {}
