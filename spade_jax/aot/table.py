"""python -m spade_jax.aot.table LINES.jsonl ...: the tables of docs/pods.md from the check's lines.

How long a step takes is an estimate: peak rates of the chip times the shares below, nothing run at
the same time as anything else, and episodes as long as assumed here.
"""

import dataclasses
import functools
import math
import pathlib
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from spade_jax.aot.chips import CHIPS, GIB
from spade_jax.aot.report import Line, Moved
from spade_jax.expected import ASSUMED as LENGTHS

CONTEXT = 32_768  # of the published recipes, both roles


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """Attributes:
    plays, hinted, designs: episodes and designs of one step; those that occur at every fourth
        step only count a quarter.
    play_tokens, design_tokens: of one, and `sampled`, the share that the model writes.
    filled: of a packed row.
    of_flops, of_hbm, of_ici: share of the chip's peak that is reached.
    latency: seconds that a collective takes however little it moves.
    """

    plays: float = 24 * 16
    hinted: float = 24 * 16 / 4
    designs: float = 24 * LENGTHS.attempts / 4
    play_tokens: float = CONTEXT * LENGTHS.play
    design_tokens: float = CONTEXT * LENGTHS.design
    sampled: float = LENGTHS.sampled
    filled: float = 0.9
    of_flops: float = 0.4
    of_hbm: float = 0.6
    of_ici: float = 0.4
    latency: float = 5e-6


ASSUMED = Assumptions()
COLUMNS = ("recipe", "slice", "settings")


@dataclasses.dataclass(frozen=True)
class Step:
    """Seconds of one step."""

    update: float
    sampling: float
    prefill: float
    reshard: float

    @property
    def total(self) -> float:
        return self.update + self.sampling + self.prefill + self.reshard


class Setup(NamedTuple):
    """What all lines of a row share; `settings` in words."""

    recipe: str
    topology: str
    settings: str

    @classmethod
    def of(cls, line: Line) -> "Setup":
        changed = sorted(line.settings.items())
        return cls(
            pathlib.PurePath(line.recipe).stem.removeprefix("games_"), line.topology,
            " ".join(f"`--config.{key}={value}`" for key, value in changed),
        )  # fmt: skip


def seconds(line: Line, assumed: Assumptions = ASSUMED) -> float:
    """Of one run: computing or its memory traffic, whichever is longer, then what it moves."""
    chip = CHIPS[line.topology.partition(":")[0]]
    compute = line.flops / (chip.flops * assumed.of_flops)
    traffic = line.memory.traffic / (chip.hbm_bandwidth * assumed.of_hbm)
    # A ring sends what it reduces twice, and what it gathers once.
    moved = sum(line.moved.values()) + line.moved.get("all-reduce", 0)
    wire = moved / (chip.ici_bandwidth * assumed.of_ici) + line.collectives * assumed.latency
    return max(compute, traffic) + wire


def estimate(lines: dict[str, Line], assumed: Assumptions = ASSUMED) -> Step | None:
    """Of a recipe on a slice, from its lines by program; None where one is missing."""
    needed = ("gradients", "apply", "prefill", "decode", "reshard")
    if any(name not in lines or lines[name].memory is None for name in needed):
        return None
    gradients, apply, prefill, decode, reshard = (lines[name] for name in needed)
    takes = functools.partial(seconds, assumed=assumed)
    played, designed = (
        assumed.plays * assumed.play_tokens, assumed.designs * assumed.design_tokens,
    )  # fmt: skip
    batch = gradients.shapes["rows"] * gradients.shapes["length"] * assumed.filled
    batches = math.ceil(played / batch) + math.ceil(designed / batch)  # roles share none
    replicas = gradients.chips / decode.chips
    plays = assumed.plays + assumed.hinted
    tokens = plays * assumed.play_tokens + assumed.designs * assumed.design_tokens
    # At half of an episode's length as many rows share a dispatch as fill the same past.
    together = decode.shapes["rows"] * decode.shapes["past"] / (assumed.play_tokens / 2)
    together = min(together, plays / replicas)
    chunk = prefill.shapes["rows"] * prefill.shapes["length"]
    return Step(
        update=batches * takes(gradients) + takes(apply),
        sampling=tokens * assumed.sampled / replicas / together * takes(decode),
        prefill=tokens * (1 - assumed.sampled) / replicas / chunk * takes(prefill),
        reshard=takes(reshard),
    )


def read(paths: Iterable[str]) -> dict[Setup, dict[str, Line]]:
    """Lines by row, then by program; a later line replaces an earlier one."""
    found: dict[Setup, dict[str, Line]] = {}
    for path in paths:
        for text in pathlib.Path(path).read_text().splitlines():
            line = msgspec.json.decode(text, type=Line)
            found.setdefault(Setup.of(line), {})[line.program] = line
    return found


def tables(found: dict[Setup, dict[str, Line]]) -> str:
    """Markdown: memory and meshes, time, and what is moved whole."""
    memory = [(*setup, *_memory(lines)) for setup, lines in found.items()]
    time = [(*setup, *_time(lines)) for setup, lines in found.items()]
    whole = [
        (*setup, *row)
        for setup, lines in found.items() for line in lines.values() for row in _whole(line)
    ]  # fmt: skip
    return "\n\n".join(
        [
            _markdown(
                (*COLUMNS, "mesh", "replica", "gradients", "apply", "prefill", "decode",
                 "reshard", "fits"), memory,
            ),
            _markdown(
                (*COLUMNS, "update", "sampling", "prefill", "reshard", "step",
                 "400 steps"), time,
            ),
            _markdown(
                (*COLUMNS, "program", "what", "collectives", "such as", "moved", "why"),
                whole,
            ),
        ]
    )  # fmt: skip


def _memory(lines: dict[str, Line]) -> Sequence[str]:
    programs = ("gradients", "apply", "prefill", "decode", "reshard")
    fits = [lines[name].fits for name in programs if name in lines]
    return (
        _mesh(lines.get("gradients")), _mesh(lines.get("decode")),
        *(_held(lines.get(name)) for name in programs),
        "no" if False in fits else "yes" if len(fits) == len(programs) else "so far",
    )  # fmt: skip


def _time(lines: dict[str, Line]) -> Sequence[str]:
    step = estimate(lines)
    if step is None:
        return ["-"] * 6
    parts = (step.update, step.sampling, step.prefill, step.reshard)
    days = 400 * step.total / 86_400
    return (
        *(f"{part:.3g} s" for part in parts), f"{step.total / 60:.2g} min", f"{days:.2g} days",
    )  # fmt: skip


def _whole(line: Line) -> Iterable[Sequence[str]]:
    """One row for each kind of collective and what it moves, however many there are."""
    alike: dict[tuple[str, str, str], list[Moved]] = {}
    for moved in line.offenders:
        alike.setdefault((moved.whole, moved.kind, moved.why), []).append(moved)
    for (what, kind, why), several in alike.items():
        largest = max(several, key=lambda moved: moved.bytes)
        total = sum(moved.bytes * moved.times for moved in several)
        yield (
            line.program, what,
            f"{sum(moved.times for moved in several)} {kind}", " ".join(largest.shapes),
            f"{total / 1e9:.3g} GB", why or "**unexplained**",
        )  # fmt: skip


def _mesh(line: Line | None) -> str:
    return " ".join(f"{axis} {size}" for axis, size in line.mesh.items()) if line else "-"


def _held(line: Line | None) -> str:
    """GiB on a chip, of the limit."""
    if line is None:
        return "-"
    if line.memory is None:
        return "-" if line.needed is None else f"**{line.needed / GIB:.1f}**"
    held = f"{line.memory.total / GIB:.1f}"
    return held if line.fits else f"**{held}**"


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    print(tables(read(sys.argv[1:])))
