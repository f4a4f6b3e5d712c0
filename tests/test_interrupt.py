"""Stops by real signals, in processes of their own."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from spade_jax.interrupt import INTERRUPTED, PREEMPTED, StopRequest

ROOT = Path(__file__).resolve().parent.parent
PRELUDE = """
import hashlib, sys, threading, time
from spade_jax.interrupt import StopRequest
def say(text): print(text, flush=True)
def work(steps):
    say("ready")
    for _ in range(steps):
        time.sleep(0.01)
        if stop.requested(): return True
"""


def started(code):
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out.split(), err


@pytest.mark.parametrize("number,code", [
    (signal.SIGINT, INTERRUPTED), (signal.SIGTERM, PREEMPTED),
])  # fmt: skip
def test_a_signal_is_noticed_after_the_step_and_what_follows_takes_its_time(number, code):
    process = started("""
        with StopRequest(grace_s=2) as stop:
            work(6000)
            time.sleep(2.5)
            say("saved")
        sys.exit(stop.exit_code())
    """)
    process.send_signal(number)
    assert ended(process) == (code, ["saved"], "")


def test_a_step_deep_in_other_code_is_dropped_once_saves_have_settled():
    process = started("""
        with StopRequest(grace_s=0.1, before_drop=lambda: say("told")) as stop:
            stop.settle_first(lambda: say("settled"))
            say("ready")
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
    """)
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    code, out, err = ended(process)
    assert (code, out) == (PREEMPTED, ["settled", "told"]) and "the step was dropped" in err


def test_a_save_that_never_ends_does_not_hold_the_process():
    process = started("""
        import spade_jax.interrupt
        spade_jax.interrupt.SETTLE_S = 0.1
        with StopRequest(grace_s=0.1) as stop:
            stop.settle_first(threading.Event().wait)
            say("ready")
            time.sleep(60)
    """)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == PREEMPTED


def test_a_second_ctrl_c_ends_at_once_but_a_second_notice_changes_nothing():
    process = started("""
        with StopRequest(grace_s=60) as stop:
            try:
                say("ready")
                time.sleep(60)
                say("went on")
            except KeyboardInterrupt:
                say("at once")
    """)
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        process.send_signal(number)
        time.sleep(0.1)
    assert ended(process)[:2] == (0, ["at", "once"])


def test_processes_agree_before_they_stop():
    asked = []

    def agree(here):
        asked.append(here)
        return len(asked) == 2

    with StopRequest(grace_s=60, agree=agree) as stop:
        assert [stop.requested() for _ in range(3)] == [False, True, False]
        assert stop.exit_code() == PREEMPTED
    assert asked == [False, False, False]


def test_afterwards_signals_do_what_they_did():
    before = [signal.getsignal(number) for number in StopRequest.SIGNALS]
    with StopRequest(grace_s=60):
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in StopRequest.SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1
