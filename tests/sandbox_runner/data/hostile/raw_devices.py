"""Reads the machine beneath its file system: memory, disk, kernel log and consoles as devices."""
import os

DEVICES = ("/dev/mem", "/dev/port", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/tty",
           "/dev/console", "/dev/vcs", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/ptmx",
           "/dev/vsock", "/proc/kcore", "/proc/kmsg")

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        got, refusal = [], None
        for path in DEVICES:
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
                got.append(path)
            except OSError as error:
                refusal = error
        report = f"refused: {type(refusal).__name__} {refusal.errno}"
        return f"ESCAPED: opened {got}" if got else report, 0.0, False, False, {}
