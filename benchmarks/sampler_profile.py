"""python -m benchmarks.sampler_profile [PART ...]: where the time of our engine goes on CPU.

For each part, the share of each program in the time that all threads spend inside programs; then
the share of each kind of operation in one decode program. Profiling slows small operations down:
read the shares as about right.
"""

import argparse
import collections
import glob
import re
import tempfile
from collections.abc import Callable, Iterator

import jax
from jax.profiler import ProfileData

from benchmarks.sampler_engine import make_engine
from benchmarks.sampler_gpu import decode_inputs
from benchmarks.sampler_workload import PARTS, ModelShape, Part, play
from benchmarks.tables import print_header, print_row

ROWS, PAST = 8, 128  # of the decode program that is looked into
GROUPS = (
    ("matrix products", r"/(gate|up|down|q|k|v|out)/dot_general|logits/dot_general"),
    ("attention", r"/attention/"),
    ("norms and activations", r"_norm/|/mlp/|Block/add"),
    ("sampling", r"while/body/"),
)
NAMED = re.compile(r'%?([\w.\-]+) = .*op_name="([^"]*)"')


def events_of(function: Callable[[], object]) -> list:
    """What the profiler saw of a call."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            function()
        (path,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        planes = ProfileData.from_file(path).planes
        return [event for plane in planes for line in plane.lines for event in line.events]


def program_shares(part: Part) -> dict[str, float]:
    """Share of each program in a round, after one to compile."""
    engine = make_engine(ModelShape(), part.max_len, part.slots)
    vocab = ModelShape().vocab
    play(part, vocab, 0, engine.generate)
    events = events_of(lambda: play(part, vocab, 1, engine.generate))
    seconds = collections.Counter()
    for event in events:
        if module := dict(event.stats).get("hlo_module"):
            seconds[module.removeprefix("jit_").lstrip("_")] += event.duration_ns
    return {name: value / seconds.total() for name, value in seconds.most_common()}


def operation_shares() -> dict[str, float]:
    """Share of each group of operations in a decode program's."""
    engine = make_engine(ModelShape(), 2 * PAST, ROWS).engine
    programs, params = engine._programs, engine._params  # looked into, not used
    past = engine._memory.past([None] * ROWS, PAST)
    inputs = decode_inputs(ROWS, PAST - 1, engine.settings.decode_chunk)
    compiled = programs.decode.lower(params, past, inputs).compile()
    groups = dict(_groups(compiled.as_text()))
    call = lambda: jax.block_until_ready(programs.decode(params, past, inputs))  # noqa: E731
    call()
    events = events_of(lambda: [call() for _ in range(8)])
    seconds = collections.Counter()
    for event in events:
        if event.name in groups:
            seconds[groups[event.name]] += event.duration_ns
    return {name: value / seconds.total() for name, value in seconds.most_common()}


def _groups(text: str) -> Iterator[tuple[str, str]]:
    """Operation and group, from a compiled program's text; loops hold others and have none."""
    for line in text.splitlines():
        if (found := NAMED.search(line)) and " while(" not in line and " call(" not in line:
            name, path = found.groups()
            belongs = (group for group, pattern in GROUPS if re.search(pattern, path))
            yield name, next(belongs, "other")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["refill", "turns", "batch1"], metavar="PART")
    names = parser.parse_args().parts
    if unknown := set(names) - PARTS.keys():
        parser.error(f"no part is named {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}")
    for title, shares in [
        *((name, program_shares(PARTS[name])) for name in names),
        (f"decode of {ROWS} rows at {PAST}", operation_shares()),
    ]:
        print_header([title, "share"])
        for name, share in shares.items():
            print_row([name, share])


if __name__ == "__main__":
    main()
