"""The keeper: what a pool starts. It enters the namespaces, forks the zygote into them and waits.

When its owner is gone, so is it, and the kernel ends the zygote and all children with it. It
imports next to nothing, because it stays as large as it is when it forks.
"""

from __future__ import annotations

import os
import select
import sys
import traceback

import msgspec

from sandbox_runner import confine
from sandbox_runner.types import Limits

_TICK_MS = 1000  # between two looks at whether the owner is there


def main(control: int, owner: int, limits: str) -> None:
    """Keep the zygote that serves the pool at file descriptor `control`, whose process is `owner`;
    never returns."""
    parsed = msgspec.json.decode(limits, type=Limits)
    missing = confine.enter_namespaces()
    keeper = os.getpid()
    zygote = os.fork()
    if zygote == 0:
        _become_zygote(keeper, control, parsed, missing)
    os.close(control)
    poll = select.poll()
    poll.register(os.pidfd_open(zygote), select.POLLIN)
    while not poll.poll(_TICK_MS):
        if os.getppid() != owner:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(zygote, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _become_zygote(keeper: int, control: int, limits: Limits, namespaces_missing: str) -> None:
    try:
        confine.die_with_parent(keeper)
        from sandbox_runner import zygote  # only now: see above

        zygote.serve(control, limits, namespaces_missing)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(70)
