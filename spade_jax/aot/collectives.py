"""Collectives in the text of a compiled program: which arrays cross chips, and how often."""

import dataclasses
import math
import re
from collections.abc import Iterator

import numpy as np

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_OPERATION = re.compile(
    rf"= (?P<result>.*?) (?P<kind>{'|'.join(KINDS)})(?P<start>-start)?\((?P<operands>.*)"
)
_ARRAY = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\]")
_CALLED = re.compile(r"\b(?:calls|to_apply|\w+_computations?)=(?:\{([^}]*)\}|%([\w.\-]+))")
_WHILE = re.compile(r"\bcondition=%([\w.\-]+), body=%([\w.\-]+)")
_IDENTITY = re.compile(r'\bchannel_id=\d+|\bmetadata=\{[^}]*\}')
_DEFINED = re.compile(r"%([\w.\-]+) = (\S+)")
_KNOWN = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_BELOW = re.compile(r"ROOT .* compare\(%[\w.\-]+, %([\w.\-]+)\), direction=LT")


@dataclasses.dataclass(frozen=True)
class Collective:
    """Attributes:
    kind: one of `KINDS`.
    shapes: of the arrays on the side where they are whole: what a gather gives, what the others
        take; with their types, for example "bf16[4096,1024]". An all-reduce of which every chip
        at once keeps a part, as a TPU fuses them, is a reduce-scatter.
    bytes: of all of them, on one chip.
    times: how often it runs; a loop whose length is not known counts once.
    """

    kind: str
    shapes: tuple[str, ...]
    bytes: int
    times: int


def elements(shape: str) -> int:
    """Of "bf16[4096,1024]"."""
    return math.prod(sides(shape))


def sides(shape: str) -> tuple[int, ...]:
    """`(4096, 1024)` of "bf16[4096,1024]"."""
    inside = shape.partition("[")[2].rstrip("]")
    return tuple(map(int, inside.split(","))) if inside else ()


def collectives(text: str) -> list[Collective]:
    """All of a program, from `compiled.as_text()`."""
    computations, entry = _computations(text)
    found: dict[tuple, Collective] = {}
    pending = [(entry, 1)]
    while pending:
        name, times = pending.pop()
        lines = computations.get(name, [])
        for line in lines:
            if collective := _of_line(line, lines, times):
                if name.startswith("all-reduce-scatter"):
                    collective = dataclasses.replace(collective, kind="reduce-scatter")
                # One that runs beside a product stands in the text as several parts, some in that
                # product's loop. A channel does not tell them: a shard_map's all share one.
                parts = collective.kind, collective.shapes, *(_IDENTITY.findall(line) or [line])
                if parts not in found or times < found[parts].times:
                    found[parts] = collective
            pending += _called(computations, line, times)
    return list(found.values())


def totals(found: list[Collective]) -> dict[str, int]:
    """Bytes by kind, as often as they move."""
    sums = {kind: sum(c.bytes * c.times for c in found if c.kind == kind) for kind in KINDS}
    return {kind: total for kind, total in sums.items() if total}


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    """Lines of each computation, and the name of the first that runs."""
    computations: dict[str, list[str]] = {}
    current, entry = [], ""
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            current = computations.setdefault(header[2], [])
            entry = header[2] if header[1] else entry
        else:
            current.append(line)
    return computations, entry


def _called(
    computations: dict[str, list[str]], line: str, times: int
) -> Iterator[tuple[str, int]]:
    """The computations that a line runs, and how often each."""
    if loop := _WHILE.search(line):
        known = _KNOWN.search(line)
        yield loop[2], times * (int(known[1]) if known else _trips(computations[loop[1]]))
    for several, one in _CALLED.findall(line):
        for name in (several or one).split(","):
            yield name.strip().lstrip("%"), times


def _trips(condition: list[str]) -> int:
    """Of a loop that counts from 0 up to a constant, as a scan does, and a product in windows; 1
    for any other."""
    if below := next(filter(None, map(_BELOW.search, condition)), None):
        constant = re.compile(rf"%{re.escape(below[1])} = [su]32\[\]\S* constant\((\d+)\)")
        if limit := next(filter(None, map(constant.search, condition)), None):
            return int(limit[1])
    return 1


def _of_line(line: str, computation: list[str], times: int) -> Collective | None:
    operation = _OPERATION.search(line)
    if not operation:
        return None
    kind = operation["kind"]
    side = operation["result"]
    if kind == "reduce-scatter":
        side = _types(operation["operands"].partition(")")[0], computation)
    arrays = [(f"{type_}[{sides}]", type_) for type_, sides in _ARRAY.findall(side)]
    if kind == "all-gather" and operation["start"]:
        arrays = arrays[len(arrays) // 2 :]  # what it takes stands before what it gives
    if kind == "collective-permute" and operation["start"]:
        arrays = arrays[:1]
    size = sum(elements(shape) * _width(type_) for shape, type_ in arrays)
    return Collective(kind, tuple(shape for shape, _ in arrays), size, times)


def _types(operands: str, computation: list[str]) -> str:
    """Of "%a, %b": the text has types where arrays are defined, not where they are used."""
    types = dict(found.groups() for found in map(_DEFINED.search, computation) if found)
    return " ".join(types.get(name, "") for name in re.findall(r"%([\w.\-]+)", operands))


def _width(type_: str) -> int:
    """Bytes of one element."""
    if type_ == "pred":
        return 1
    bits = re.search(r"\d+", type_)
    return max(1, int(bits[0]) // 8) if bits else np.dtype(np.uint8).itemsize
