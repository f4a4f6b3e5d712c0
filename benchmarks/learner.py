"""python -m benchmarks.learner: the learner's update beside google-tunix 0.1.7, part by part.

One update is gradient and optimizer step of the policy loss with importance weights, in fp32, on
the same trajectories of the same small Qwen3. `ragged` ones are packed by our side and padded by
tunix; `equal` ones fill both sides' rows, so that the two ratios differ by what packing brings.
Both begin with the same weights and must come to the same loss and the same gradient norm. Each is
tried with several micro-batches first and keeps what takes the least CPU; then they take turns,
round by round, in processes of their own, tunix in an environment of its own, made at the first run
under `--cache`.

Machines are noisy: a side is as fast as its fastest update, and a ratio's range is that of the
rounds. `of peak` is the share of the best rate of a big matrix product in the same process, padding
and what is done twice not counted; `computed of peak` counts both. Columns with CPU are by the
seconds of all threads in place of the wall's: they hold beside other work, but do not see a core
that rests. `--alone` leaves tunix out; `--json=FILE` keeps all. Ten minutes on two cores.
"""

import argparse
import contextlib
import json
import sys

from benchmarks import beside_tunix
from benchmarks.beside_tunix import UnequalError
from benchmarks.learner_workload import PARTS, draw_batch, useful_flops
from benchmarks.sampler_workload import ModelShape
from benchmarks.tables import print_header, print_row
from benchmarks.worker import Worker

OURS, TUNIX = "benchmarks.learner_ours", "benchmarks.learner_tunix"
MICRO = 1, 2, 4  # micro-batches that are tried
TRIES, STEPS = 2, 2  # updates of each try, and of each round
TOLERANCE = 1e-3  # relative, between the losses and the norms of both sides
CLOCKS = {"wall": "", "cpu": "cpu_"}  # and how the names of what is by each begin
COLUMNS = {
    "tok/s": "tok_s", "tunix tok/s": "tunix_tok_s", "ratio": "ratio", "lowest": "lowest_ratio",
    "highest": "highest_ratio", "of peak": "of_peak", "computed of peak": "computed_of_peak",
    "CPU ratio": "cpu_ratio", "CPU lowest": "cpu_lowest_ratio", "CPU highest": "cpu_highest_ratio",
    "CPU of peak": "cpu_of_peak", "CPU computed of peak": "cpu_computed_of_peak",
    "micro-batches": "micro", "tunix's": "tunix_micro", "row use": "row_use",
    "tunix row use": "tunix_row_use", "compiles": "compiles",
}  # fmt: skip


def main() -> None:
    options = _options()
    with contextlib.ExitStack() as stack:
        both = beside_tunix.opened(options, "benchmarks.learner_worker", OURS, TUNIX)
        ours, tunix, about = stack.enter_context(both)
        print(json.dumps(about))
        result = {"about": about, "parts": {}}
        stack.callback(beside_tunix.keep, options.json, result)
        print_header(["part", *COLUMNS])
        for name in options.parts:
            row = measure(name, ours, tunix, options.rounds)
            result["parts"][name] = row
            print_row([name, *(row.get(key, "-") for key in COLUMNS.values())])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=5, help="per part, after one to warm up")
    beside_tunix.add_options(parser)
    return parser.parse_args()


def measure(name: str, ours: Worker, tunix: Worker | None, rounds: int) -> dict:
    """One part's numbers.

    Raises:
        UnequalError: see `check_equal`.
    """
    sides = {"": ours} | ({"tunix_": tunix} if tunix else {})
    print(f"{name}: trying {MICRO} micro-batches", file=sys.stderr)
    tried = {side: try_all(worker, name) for side, worker in sides.items()}
    if tunix:
        check_equal(name, *(said[1]["made"] for said in tried.values()))
    chosen = {side: min(said, key=lambda m: min(said[m]["cpu"])) for side, said in tried.items()}
    made = {side: sides[side].ask("make", part=name, micro=m) for side, m in chosen.items()}
    times: dict[Worker, list[dict]] = {worker: [] for worker in sides.values()}
    peaks = []
    for number, worker in beside_tunix.alternated(ours, tunix, rounds):
        answer = worker.ask("train", steps=STEPS)
        times[worker] += [answer] if number else []
        peaks += [ours.ask("peak")] if worker is ours else []
    peak = {clock: max(answer[clock] for answer in peaks) for clock in CLOCKS}
    row = {"peak": peak}
    for side, worker in sides.items():
        said = summary(name, made[side], times[worker], peak)
        said |= {"micro": chosen[side], "tried": tried[side]}
        row |= {f"{side}{key}": value for key, value in said.items()}
    return row | (ratios(times[ours], times[tunix]) if tunix else {})


def check_equal(name: str, ours: dict, tunix: dict) -> None:
    """
    Raises:
        UnequalError: the models have not equally many parameters, the losses do not count equally
            many tokens, or the whole batch gives another loss or gradient.
    """
    for key, what in (("num_params", "parameters"), ("trained", "trained tokens")):
        if ours[key] != tunix[key]:
            raise UnequalError(f"{name}: we have {ours[key]} {what}, tunix {tunix[key]}")
    for key in ("loss", "grad_norm"):
        if abs(ours[key] - tunix[key]) > TOLERANCE * abs(tunix[key]):
            raise UnequalError(f"{name}: our {key} is {ours[key]}, tunix's {tunix[key]}")


def try_all(worker: Worker, name: str) -> dict[int, dict]:
    """By the number of micro-batches, what is `made`, and the times of a few updates."""
    tried = {}
    for micro in MICRO:
        made = worker.ask("make", part=name, micro=micro)
        tried[micro] = {"made": made, **worker.ask("train", steps=TRIES)}
    return tried


def summary(name: str, made: dict, rounds: list[dict], peak: dict[str, float]) -> dict:
    """Of the fastest update by each clock; `peak` is the matrix products' by each."""
    shape = ModelShape()
    lengths = draw_batch(PARTS[name], shape.vocab).lengths
    tokens = sum(lengths)
    row = {
        "row_use": tokens / (tokens + made["padding"]), "rounds": rounds,
        "compiles": sum(r["compiles"] for r in rounds),
    }  # fmt: skip
    for clock, prefix in CLOCKS.items():
        best = min(bests(rounds, clock))
        row |= {f"{prefix}tok_s": tokens / best, f"{prefix}trained_tok_s": made["trained"] / best}
        row[f"{prefix}of_peak"] = useful_flops(shape, lengths) / best / peak[clock]
        if "flops" in made:
            row[f"{prefix}computed_of_peak"] = made["flops"] / best / peak[clock]
    return row


def bests(rounds: list[dict], clock: str) -> list[float]:
    return [min(r[clock]) for r in rounds]


def ratios(ours: list[dict], tunix: list[dict]) -> dict:
    """Of speed: that of the fastest updates of all, and the range of the rounds' fastest."""
    row = {}
    for clock, prefix in CLOCKS.items():
        mine, theirs = bests(ours, clock), bests(tunix, clock)
        each = [b / a for a, b in zip(mine, theirs, strict=True)]
        row |= {
            f"{prefix}ratio": min(theirs) / min(mine), f"{prefix}ratios": each,
            f"{prefix}lowest_ratio": min(each), f"{prefix}highest_ratio": max(each),
        }  # fmt: skip
    return row


if __name__ == "__main__":
    main()
