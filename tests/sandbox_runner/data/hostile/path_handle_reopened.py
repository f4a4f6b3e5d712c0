"""Takes O_PATH handles, which file rules do not check, and turns them into readable files."""
import os

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        got, refusal = [], None
        def through(path, folder=None):
            descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
            return os.read(descriptor, 8)
        target = "/etc/passwd" if os.path.exists("/etc/passwd") else "/"
        file, root = os.open(target, os.O_PATH), os.open("/", os.O_PATH)
        ways = (lambda: os.read(file, 8), lambda: through(f"/proc/self/fd/{file}"),
                lambda: through(f"/dev/fd/{file}"), lambda: through("etc/passwd", root),
                lambda: os.listdir(root), lambda: through(f"/proc/self/fd/{root}/etc/passwd"))
        for number, way in enumerate(ways):
            try:
                if found := len(way()):
                    got.append((number, found))
            except OSError as error:
                refusal = error
        report = f"refused: {type(refusal).__name__} {refusal.errno}"
        return f"ESCAPED: read by way {got}" if got else report, 0.0, False, False, {}
