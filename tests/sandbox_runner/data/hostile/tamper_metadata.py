"""Changes what belongs to a library's file but is not its content: times, owner, name, labels."""
import os

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        path, seen = os.__file__, os.stat(os.__file__)
        got, refusal = [], None
        ways = {"utime": lambda: os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns)),
                "chown": lambda: os.chown(path, seen.st_uid, seen.st_gid),
                "rename": lambda: os.rename(path, path),
                "truncate": lambda: os.truncate(path, seen.st_size),
                "label": lambda: os.setxattr(path, "user.hostile", b"")}
        for name, way in ways.items():
            try:
                way()
                got.append(name)
            except OSError as error:
                refusal = error
        report = f"refused: {type(refusal).__name__} {getattr(refusal, 'errno', None)}"
        return f"ESCAPED: {got}" if got else report, 0.0, False, False, {}
