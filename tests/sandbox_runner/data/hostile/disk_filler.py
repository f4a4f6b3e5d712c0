"""Fills every folder that it can write to."""
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/", ".", "/proc/self/cwd")


class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        refused = ""
        for folder in FOLDERS:
            try:
                with open(f"{folder}/spade_filler", "wb") as file:
                    file.write(bytes(1 << 20))
                return f"ESCAPED: {folder}", 0.0, False, False, {}
            except OSError as error:
                refused = f"refused: {type(error).__name__} {error.errno}"
        return refused, 0.0, False, False, {}
