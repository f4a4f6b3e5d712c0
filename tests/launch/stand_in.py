"""Stands in for a run: python stand_in.py WORKDIR STEPS [BEHAVIOUR].

A step takes 20 ms. It resumes from the steps that WORKDIR/metrics.jsonl holds; SIGTERM makes it
save and exit with the code of a preempted run. "stubborn" ignores SIGTERM and has a child of its
own; "preempted" takes one step each time it is started, until all are done.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

PREEMPTED = 75


def main(workdir: str, steps: str, behaviour: str = "") -> int:
    folder = pathlib.Path(workdir)
    folder.mkdir(parents=True, exist_ok=True)
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    if behaviour == "stubborn":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        (folder / "child").write_text(str(child.pid))
    metrics = folder / "metrics.jsonl"
    done = len(metrics.read_text().splitlines()) if metrics.exists() else 0
    (folder / "pid").write_text(str(os.getpid()))
    print(f"from step {done}", flush=True)
    while done < int(steps):
        time.sleep(0.02)
        done += 1
        with metrics.open("a") as file:
            file.write(json.dumps({"step": done, "designer/regret": done / 100}) + "\n")
        if behaviour == "preempted" and done < int(steps):
            return PREEMPTED
        if stopping and behaviour != "stubborn":
            print("saved", flush=True)
            return PREEMPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
