"""The processes of one run, as the training loop sees them: all run the same program.

What takes time is spread: each process works on its share, and everybody gets all results in the
order of the items. What follows from results, every process computes for itself, from the same
numbers. Where processes part company, an error says so.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")

SMALL = 1 << 14  # bytes that travel with the message that announces them
LOOK = 0.5  # seconds between two looks at whether another process has failed
FAILED = "failed"  # key of the first failure


class HostError(RuntimeError):
    """Another process failed, came too late or does something else; the message names it."""


class Wire(NamedTuple):
    """How a list of results travels: `decode(encode(results))` equals `results`."""

    encode: Callable[[list], bytes]
    decode: Callable[[bytes], list]


PLAIN = Wire(msgspec.msgpack.encode, msgspec.msgpack.decode)  # numbers, text, lists, dicts


class Hosts:
    """A run of one process, which does all the work.

    Attributes:
        index, count: number of this process, and of all of them.
    """

    index = 0
    count = 1

    @property
    def leader(self) -> bool:
        """Whether this process writes what is shared: metrics, environments, settings."""
        return self.index == 0

    def all(self, what: str, value: Any) -> list[Any]:
        """Every process's value, in their order. All processes make the same calls in one order.

        Args:
            what: names the call, for errors.
            value: what `PLAIN` takes.

        Raises:
            HostError: another process failed, is somewhere else, or not here in time.
        """
        return [value]

    def spread(
        self,
        what: str,
        work: Callable[[list[Item]], list[Result]],
        items: Sequence[Item],
        wire: Wire = PLAIN,
    ) -> list[Result]:
        """`work(items)`, where `work` treats each item by itself: process k modulo `count` does
        item k.

        Raises:
            HostError: as `all`.
        """
        return work(list(items))

    def any(self, flag: bool) -> bool:
        """Whether the flag is up in some process."""
        return any(self.all("flag", bool(flag)))

    def agree(self, what: str, value: Any) -> None:
        """Raises HostError unless all processes have the same value, as `all` takes it."""
        own = PLAIN.encode(value)  # NaN is not NaN, but its bytes are
        for index, other in enumerate(self.all(what, value)):
            if PLAIN.encode(other) != own:
                raise HostError(
                    f"process {index} differs from process {self.index} in {what}:"
                    f" {_difference(other, value)}"
                )

    def desert(self, why: str, exit_code: int) -> None:
        """Tells the others, from any thread, that this process `why`: they end with that exit code
        too. The caller then ends the process."""

    @contextlib.contextmanager
    def leader_first(self, what: str) -> Iterator[None]:
        """The leader does what is inside, then the others do, who find what it wrote."""
        if not self.leader:
            self.all(what, None)
        yield
        if self.leader:
            self.all(what, None)


def _difference(one: Any, other: Any) -> str:
    """Both values; of dictionaries, the entries that differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]
        return ", ".join(f"{key}={one.get(key)!r}, {other.get(key)!r}" for key in sorted(keys))
    return f"{one!r}, {other!r}"


class Store(Protocol):
    """A dictionary that all processes share."""

    def put(self, key: str, value: bytes, replace: bool = False) -> None:
        """Unless it may be replaced, the first value of a key stays, and a later one is dropped."""

    def get(self, key: str, seconds: float) -> bytes | None:
        """The value, for which it waits so long at most; None when it does not come.

        Raises:
            HostError: the store is lost.
        """

    def remove(self, key: str) -> None:
        """Forgets a key, which may be missing."""


class _Pulse:
    """Signs of life in the store: every process gives them, the leader looks for the others'."""

    def __init__(self, store: Store, index: int, count: int, patience: int):
        """`patience`: looks without a new sign after which a process is dead. Looks are counted,
        not seconds: a leader that was kept from looking has not seen anybody be silent."""
        self._store, self._index, self._patience = store, index, patience
        self._given = 0
        others = range(1, count) if index == 0 else ()
        self._seen = dict.fromkeys(others, (b"", 0))  # the last sign, looks since

    def silent(self) -> int | None:
        """Gives a sign and looks; the process that is dead, or None."""
        self._given += 1
        self._store.put(f"alive/{self._index}", b"%d" % self._given, replace=True)
        for other, (sign, looks) in self._seen.items():
            new = self._store.get(f"alive/{other}", 0.0)
            self._seen[other] = (sign, looks + 1) if new in (None, sign) else (new, 0)
            if looks >= self._patience:
                return other
        return None


class _Packet(msgspec.Struct, array_like=True):
    """What a process announces: the call that it is at and its bytes, if they are few."""

    what: str
    size: int
    data: bytes


class _Failure(msgspec.Struct, array_like=True):
    """Of one process, for which all stop; with one exit code, so that launchers see one end."""

    text: str
    exit_code: int = 1


class Group(Hosts):
    """One of several processes.

    Small values go through the store, where waiting has a deadline and a failure is seen at once.
    Large ones are only announced there: when all processes are at it, their bytes go over the
    devices' own network, which is fast but would wait for a missing process for ever.

    Attributes:
        exit_code: of a process that left `together` by an exception; the first failure's.
    """

    def __init__(
        self,
        store: Store,
        index: int,
        count: int,
        timeout: float,
        collect: Callable[[np.ndarray], np.ndarray],
    ):
        """
        Args:
            timeout: seconds to wait for another process, which may be at work all that time.
            collect: the bytes of all processes `[N, B]` from those of each `[B]`, uint8; they call
                it together.
        """
        self.index, self.count = index, count
        self._store, self._timeout, self._collect = store, timeout, collect
        self.exit_code = 1
        self._calls, self._grace = 0, 0.0
        self._failure: _Failure | None = None
        self._left = threading.Event()

    def all(self, what: str, value: Any) -> list[Any]:
        return [PLAIN.decode(data) for data in self._gather(what, PLAIN.encode(value))]

    def spread(self, what, work, items, wire=PLAIN):
        mine = list(items[self.index :: self.count])
        data = wire.encode(work(mine) if mine else [])
        shares = [iter(wire.decode(share)) for share in self._gather(what, data)]
        return [next(shares[k % self.count]) for k in range(len(items))]

    @contextlib.contextmanager
    def together(
        self,
        silence: float,
        grace: float,
        end: Callable[[str, int], None],
        exit_code: Callable[[BaseException], int] = lambda error: 1,
    ) -> Iterator[None]:
        """If what is inside fails, the others are told; if another process does, `all` raises.

        Args:
            silence: seconds without a sign of life after which a process has failed.
            grace: seconds after which `end` is called with the failure of another process and its
                exit code, from a thread: who waits for it in a collective operation of the devices
                sees no error.
            exit_code: of an exception in this process.
        """
        self._grace = grace
        pulse = _Pulse(self._store, self.index, self.count, int(silence / LOOK))
        watcher = threading.Thread(target=self._watch, args=(pulse, grace, end), daemon=True)
        watcher.start()
        try:
            yield
        except BaseException as error:
            text = f"process {self.index} failed: {type(error).__name__}: {error}"
            self.exit_code = self._report(_Failure(text, exit_code(error))).exit_code
            raise
        finally:
            self._left.set()
            watcher.join()

    def desert(self, why: str, exit_code: int) -> None:
        self._left.set()
        self._report(_Failure(f"process {self.index} {why}", exit_code))
        self.outlast()

    def outlast(self) -> None:
        """Waits in the leader, with whom the store may end, until the others know why they stop."""
        if self.leader:
            time.sleep(self._grace + 1.0)

    def _report(self, failure: _Failure) -> _Failure:
        """The first failure is the run's, and is returned."""
        self._store.put(FAILED, msgspec.msgpack.encode(failure))
        with contextlib.suppress(HostError):
            failure = self._reported() or failure
        return failure

    def _reported(self) -> _Failure | None:
        said = self._store.get(FAILED, LOOK)
        return None if said is None else msgspec.msgpack.decode(said, type=_Failure)

    def _watch(self, pulse: _Pulse, grace: float, end: Callable[[str, int], None]) -> None:
        failure = None
        while failure is None and not self._left.is_set():
            try:
                failure = self._reported()
                if (dead := pulse.silent()) is not None:
                    self._report(_Failure(f"process {dead} died: it gives no sign of life"))
            except HostError as error:
                failure = _Failure(str(error))
        if failure is not None:
            self._failure = failure
            if not self._left.wait(grace):
                end(failure.text, failure.exit_code)

    def _gather(self, what: str, data: bytes) -> list[bytes]:
        self._calls += 1
        packet = _Packet(what, len(data), data if len(data) <= SMALL else b"")
        self._store.put(f"{self._calls}/{self.index}", msgspec.msgpack.encode(packet))
        deadline = time.monotonic() + self._timeout
        packets = [self._wait(what, index, deadline) for index in range(self.count)]
        # All are here, so nobody reads the last call's any more.
        self._store.remove(f"{self._calls - 1}/{self.index}")
        largest = max(packet.size for packet in packets)
        if largest <= SMALL:
            return [packet.data for packet in packets]
        padded = np.zeros(1 << (largest - 1).bit_length(), np.uint8)  # few shapes to compile
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        rows = self._collect(padded)
        return [row[: packet.size].tobytes() for row, packet in zip(rows, packets, strict=True)]

    def _wait(self, what: str, index: int, deadline: float) -> _Packet:
        data = None
        while data is None:
            if self._failure is not None:
                raise HostError(self._failure.text)
            left = deadline - time.monotonic()
            if left <= 0:
                raise HostError(
                    f"process {index} did not come to {what!r} within distributed.timeout_s="
                    f"{self._timeout:g}"
                )
            data = self._store.get(f"{self._calls}/{index}", min(LOOK, left))
        packet = msgspec.msgpack.decode(data, type=_Packet)
        if packet.what != what:
            raise HostError(
                f"process {index} is at {packet.what!r} while process {self.index} is at {what!r}"
            )
        return packet
