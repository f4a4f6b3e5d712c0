"""python child.py LAUNCHER_PID CORES COMMAND...: becomes the command, tied to its launcher.

On Linux the command gets SIGTERM when the launcher dies, however that happens, and runs on CORES
alone ("0,2"; empty: on all).
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(launcher: str, cores: str, *command: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(launcher):
            sys.exit(f"the launcher {launcher} is gone")
        if cores:
            os.sched_setaffinity(0, map(int, cores.split(",")))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
