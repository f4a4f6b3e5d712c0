"""Clean interruption: Ctrl-C, and the notice that a preempted machine gives."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

PREEMPTED = 75  # exit code after SIGTERM, EX_TEMPFAIL: launchers start the same command again
INTERRUPTED = 128 + signal.SIGINT  # exit code after Ctrl-C, as shells have it
SETTLE_S = 600.0  # most seconds that a dropped step waits for saves under way


class StopRequest:
    """A context manager; `requested()` turns true with the first SIGINT or SIGTERM.

    After SIGTERM a step that does not end within `grace_s` seconds is dropped, as if killed: the
    process waits for the saves named by `settle_first`, calls `before_drop` and exits with
    PREEMPTED. A second SIGINT raises KeyboardInterrupt at once.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(
        self,
        grace_s: float,
        agree: Callable[[bool], bool] = bool,
        before_drop: Callable[[], None] = lambda: None,
    ):
        """Args:
        agree: from "this process was asked to stop" to "the run stops". Processes of one run
            must come to the same answer; it is called once in every `requested`.
        before_drop: called, in another thread, just before a step is dropped.
        """
        self._grace_s, self._agree, self._before_drop = grace_s, agree, before_drop
        self._asked: int | None = None
        self._noticed = threading.Event()
        self._settle: list[Callable[[], None]] = []
        self._previous: dict[int, object] = {}

    def requested(self) -> bool:
        """Whether to stop now. True ends the grace period: what follows may take its time."""
        stopping = self._agree(self._asked is not None)
        if stopping:
            self._noticed.set()
        return stopping

    def exit_code(self) -> int:
        """Of a run that stopped before its end."""
        return INTERRUPTED if self._asked == signal.SIGINT else PREEMPTED

    def settle_first(self, wait: Callable[[], None]) -> None:
        """Before a step is dropped, `wait` is called, in another thread."""
        self._settle.append(wait)

    def __enter__(self) -> "StopRequest":
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._previous_fd = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        for number in self.SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)
        threading.Thread(target=self._watch, name="preemption", daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self._noticed.set()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        self._sender.close()

    def _handle(self, number, frame) -> None:
        if number == signal.SIGINT and self._asked is not None:
            raise KeyboardInterrupt
        self._asked = number

    def _watch(self) -> None:
        """The main thread may be deep in a compilation, where Python's handlers wait."""
        with self._receiver:
            while signal.SIGTERM not in (received := self._receiver.recv(16)):
                if not received:
                    return
        if not self._noticed.wait(self._grace_s):
            self._drop()

    def _drop(self) -> None:
        for act in (self._settled, self._before_drop):
            thread = threading.Thread(target=act, daemon=True)
            thread.start()
            thread.join(SETTLE_S)
        os._exit(PREEMPTED)

    def _settled(self) -> None:
        for wait in self._settle:
            wait()
        print(
            f"preempted; the step was dropped after {self._grace_s:g} s; the same command goes on",
            file=sys.stderr, flush=True,
        )  # fmt: skip
