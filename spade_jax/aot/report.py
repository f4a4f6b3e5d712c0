"""Compiles one program and says what it needs."""

import re
import time
from collections.abc import Mapping
from typing import Any

import jax
import msgspec

from spade_jax.aot.collectives import Collective, collectives, totals
from spade_jax.aot.programs import Plan, Program
from spade_jax.aot.whole import reason, whole


class Moved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A collective; `why` says why an array may be moved whole."""

    kind: str
    shapes: tuple[str, ...]
    bytes: int
    times: int
    whole: str = ""
    why: str = ""


class Memory(msgspec.Struct, frozen=True):
    """Bytes on each chip. `aliased` are outputs in the place of donated arguments; `resident` is
    there while the program runs, without being its own. `limit` is the chip's, None if unknown."""

    arguments: int
    outputs: int
    temporaries: int
    aliased: int
    code: int
    resident: dict[str, int]
    total: int
    limit: int | None

    @property
    def traffic(self) -> int:
        """Bytes of one run, if arguments are read, outputs written, and temporaries written and
        read once."""
        return self.arguments + self.outputs - self.aliased + 2 * self.temporaries


class Line(msgspec.Struct, frozen=True):
    """One program on one slice.

    Attributes:
        mesh: sizes of the axes that are larger than 1, and `chips` their product.
        memory: None where nothing was compiled, or where it does not fit.
        needed: bytes on each chip that the compiler asked for in vain.
        flops: operations of one chip in one run (decode: for one token in each row), by formula.
        intensity: those for each byte of `Memory.traffic`.
        settings: what was changed on the command line.
        largest: the collective that moves most at a time.
        collectives: how many run.
        moved: bytes on one chip by kind of collective, as often as they move.
        offenders: collectives whose arrays are a whole embedding, or a whole matrix of a layer.
        seconds: of compilation.
    """

    recipe: str
    settings: dict[str, Any]
    topology: str
    program: str
    mesh: dict[str, int]
    chips: int
    shapes: dict[str, int]
    fits: bool | None
    memory: Memory | None
    needed: int | None
    flops: float
    intensity: float | None
    largest: Moved | None
    collectives: int
    moved: dict[str, int]
    offenders: list[Moved]
    seconds: float


_SIZE = re.compile(r"([\d.]+)([KMG]) of [\d.]+G hbm|\(([\d.]+)([KMG])\) exceeds available HBM")
_UNIT = {"K": 2**10, "M": 2**20, "G": 2**30}


def check(
    recipe: str, settings: Mapping[str, Any], plan: Plan, program: Program
) -> Line:
    """Compiles it; where devices are simulated, lowers it only."""
    began = time.monotonic()
    lowered = program.lower()
    memory = needed = None
    found: list[Collective] = []
    if not plan.topology.is_simulated:
        try:
            compiled = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            needed = _needed(error)
        else:
            memory = _memory(compiled, program, plan.topology.chip.hbm)
            found = collectives(compiled.as_text())
    mesh = {axis: size for axis, size in program.mesh.shape.items() if size > 1}
    per_chip = program.flops / program.mesh.size
    marked = [_moved(plan, program, collective) for collective in found]
    return Line(
        recipe=recipe,
        settings=dict(settings),
        topology=plan.topology.name,
        program=program.name,
        mesh=mesh,
        chips=program.mesh.size,
        shapes=dict(program.shapes),
        fits=_fits(memory, needed),
        memory=memory,
        needed=needed,
        flops=per_chip,
        intensity=per_chip / memory.traffic if memory else None,
        largest=max(marked, key=lambda moved: moved.bytes, default=None),
        collectives=sum(collective.times for collective in found),
        moved=totals(found),
        offenders=[moved for moved in marked if moved.whole],
        seconds=round(time.monotonic() - began, 1),
    )


def _memory(compiled: jax.stages.Compiled, program: Program, limit: float | None) -> Memory:
    size = compiled.memory_analysis()
    own = (
        size.argument_size_in_bytes + size.output_size_in_bytes + size.temp_size_in_bytes
        + size.generated_code_size_in_bytes - size.alias_size_in_bytes
    )  # fmt: skip
    return Memory(
        arguments=size.argument_size_in_bytes,
        outputs=size.output_size_in_bytes,
        temporaries=size.temp_size_in_bytes,
        aliased=size.alias_size_in_bytes,
        code=size.generated_code_size_in_bytes,
        resident=dict(program.resident),
        total=own + sum(program.resident.values()),
        limit=None if limit is None else int(limit),
    )


def _needed(error: Exception) -> int:
    """Bytes that a program asked for; raises the error if it is of another kind."""
    said = _SIZE.search(str(error)) if "RESOURCE_EXHAUSTED" in str(error) else None
    if said is None:
        raise error
    number, unit = said[1] or said[3], said[2] or said[4]
    return int(float(number) * _UNIT[unit])


def _fits(memory: Memory | None, needed: int | None) -> bool | None:
    if needed is not None:
        return False
    if memory is None or memory.limit is None:
        return None
    return memory.total <= memory.limit


def _moved(plan: Plan, program: Program, collective: Collective) -> Moved:
    what = whole(plan.model, collective)
    return Moved(
        collective.kind, collective.shapes, collective.bytes, collective.times, what,
        reason(program.mesh.shape, collective) if what else "",
    )  # fmt: skip
