"""Clean interruption: the first SIGINT or SIGTERM asks the run to stop after the present step."""

import signal
import threading


class StopRequest:
    """A context manager; `requested()` turns true with the first signal. A second one raises
    KeyboardInterrupt at once."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self._event = threading.Event()
        self._previous: dict[int, object] = {}

    def requested(self) -> bool:
        return self._event.is_set()

    def __enter__(self) -> "StopRequest":
        for number in self.SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number, frame) -> None:
        if self._event.is_set():
            raise KeyboardInterrupt
        self._event.set()
