"""Nothing outlives the process that owns a pool."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.sandbox_runner.processes import alive, below

ROOT = str(Path(__file__).resolve().parents[2])
OWNER = """
import sys
sys.path.insert(0, sys.argv[1])
from sandbox_runner import BlockingPool, Limits
source = '''
class BusyEnv:
    def reset(self, seed=None):
        return "ready"
    def step(self, action):
        while True: pass
'''
pool = BlockingPool(Limits(call_cpu=60.0))
sessions = pool.open([source] * 3)
pool.reset([(s, 1) for s in sessions])
pool.open_fresh([source], 12, hash_seed=1)
print("ready", flush=True)
pool.step([(s, "x") for s in sessions[:2]])
"""


def test_a_killed_owner_takes_busy_children_and_zygotes_with_it(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, ROOT], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert owner.stdout.readline() == "ready\n"
        pids = below(owner.pid)
        assert len(pids) == 8  # two keepers, two zygotes, four children
        time.sleep(0.2)
        owner.send_signal(signal.SIGKILL)
        owner.wait(5)
        deadline = time.monotonic() + 2.0
        while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [pid for pid in pids if alive(pid)] == []
    finally:
        owner.kill()
        owner.wait(5)
        owner.stdout.close()


def test_the_owner_is_never_forked_and_a_terminal_signals_zygotes_not(pool, program):
    pool.close(pool.open([program("sound/guess_number")]))
    for pid in pool.keeper_pids():
        assert os.getpgid(pid) == pid != os.getpgid(0)
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"sandbox_runner.keeper" in command
