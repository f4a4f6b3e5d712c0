"""Looks for what the owner would not tell: passwords, keys, variables of the environment."""
import os

PLACES = (
    "/etc/shadow", "/etc/passwd", "/root/.ssh/id_ed25519", "/proc/1/environ", "/proc/self/environ",
    "/proc/self/root/etc/passwd",
)


class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        found, refused = [name for name in os.environ if name not in ("LC_ALL", "LC_CTYPE")], ""
        for place in PLACES:
            try:
                with open(place) as file:
                    found.append(file.read(100))
            except OSError as error:
                refused = f"refused: {type(error).__name__} {error.errno}"
        return (f"ESCAPED: {found}" if found else refused), 0.0, False, False, {}
