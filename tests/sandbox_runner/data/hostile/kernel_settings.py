"""Opens the kernel's switches for writing: who dies when memory is short, who gets core files."""
import os

SWITCHES = ("/proc/self/oom_score_adj", "/proc/self/coredump_filter", "/proc/self/uid_map",
            "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory",
            "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs")

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        got, refusal = [], None
        for path in SWITCHES:
            try:
                os.close(os.open(path, os.O_WRONLY))
                got.append(path)
            except OSError as error:
                refusal = refusal or error
        report = f"refused: {type(refusal).__name__} {refusal.errno}"
        return f"ESCAPED: may write {got}" if got else report, 0.0, False, False, {}
