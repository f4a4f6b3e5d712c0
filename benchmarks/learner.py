"""python -m benchmarks.learner: the learner's update beside google-tunix 0.1.7, part by part.

One update is gradient and optimizer step of the policy loss with importance weights, in fp32, on
the same trajectories of the same small Qwen3. `ragged` ones are packed by our side and padded by
tunix; `equal` ones fill both sides' rows, so that the two ratios differ by what packing brings.
Both begin with the same weights and must come to the same loss and the same gradient norm. Each is
tried with several micro-batches first and keeps its fastest; then they take turns, round by round,
in processes of their own, tunix in an environment of its own, made at the first run under
`--cache`.

`of peak` is the share of the best measured rate of a big matrix product, tokens that are padding
and work that is done twice not counted; `computed of peak` counts them. Machines are noisy: a side
is as fast as its fastest update, a ratio's range is that of the rounds' fastest.
`--alone` leaves tunix out; `--json=FILE` keeps all. Five minutes on two cores.
"""

import argparse
import contextlib
import json
import statistics
from collections.abc import Iterable

from benchmarks import beside_tunix
from benchmarks.beside_tunix import UnequalError
from benchmarks.learner_workload import PARTS, draw_batch, useful_flops
from benchmarks.sampler_workload import ModelShape
from benchmarks.tables import print_header, print_row
from benchmarks.worker import Worker

OURS, TUNIX = "benchmarks.learner_ours", "benchmarks.learner_tunix"
MICRO = 1, 2, 4, 8  # micro-batches that are tried
TRIES, STEPS = 3, 3  # updates of each try, and of each round
TOLERANCE = 1e-3  # relative, between the losses and the norms of both sides
COLUMNS = {
    "tok/s": "tok_s", "tunix tok/s": "tunix_tok_s", "ratio": "ratio", "lowest": "lowest_ratio",
    "highest": "highest_ratio", "micro-batches": "micro", "tunix's": "tunix_micro",
    "row use": "row_use", "tunix row use": "tunix_row_use", "of peak": "of_peak",
    "computed of peak": "computed_of_peak", "compiles": "compiles",
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
    firsts = {side: worker.ask("make", part=name, micro=1) for side, worker in sides.items()}
    if tunix:
        check_equal(name, firsts[""], firsts["tunix_"])
    chosen = {side: fastest(worker, name) for side, worker in sides.items()}
    made = {side: sides[side].ask("make", part=name, micro=m) for side, (m, _) in chosen.items()}
    times: dict[Worker, list[dict]] = {worker: [] for worker in sides.values()}
    peaks = []
    for number, worker in beside_tunix.alternated(ours, tunix, rounds):
        answer = worker.ask("train", steps=STEPS)
        times[worker] += [answer] if number else []
        if worker is ours:
            peaks.append(ours.ask("peak")["flops"])
    row = {"first": firsts, "peak": max(peaks), "peaks": peaks}
    for side, worker in sides.items():
        micro, tried = chosen[side]
        said = summary(name, made[side], times[worker], max(peaks))
        row |= {f"{side}{key}": value for key, value in said.items()}
        row |= {f"{side}micro": micro, f"{side}tried": tried}
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


def fastest(worker: Worker, name: str) -> tuple[int, dict[int, float]]:
    """The number of micro-batches with the fastest update, and the seconds of each number."""
    tried = {}
    for micro in MICRO:
        worker.ask("make", part=name, micro=micro)
        tried[micro] = min(worker.ask("train", steps=TRIES)["seconds"])
    return min(tried, key=tried.get), tried


def summary(name: str, made: dict, rounds: list[dict], peak: float) -> dict:
    shape = ModelShape()
    lengths = draw_batch(PARTS[name], shape.vocab).lengths
    best, tokens = min(bests(rounds)), sum(lengths)
    return {
        "tok_s": tokens / best, "trained_tok_s": made["trained"] / best,
        "median_tok_s": tokens / statistics.median(s for r in rounds for s in r["seconds"]),
        "row_use": tokens / made["positions"],
        "of_peak": useful_flops(shape, lengths) / best / peak,
        **({"computed_of_peak": made["flops"] / best / peak} if "flops" in made else {}),
        "compiles": sum(r["compiles"] for r in rounds), "seconds": [r["seconds"] for r in rounds],
    }  # fmt: skip


def bests(rounds: Iterable[dict]) -> list[float]:
    return [min(r["seconds"]) for r in rounds]


def ratios(ours: list[dict], tunix: list[dict]) -> dict:
    """Of speed: that of the fastest updates of all, and the range of the rounds' fastest."""
    pairs = zip(bests(ours), bests(tunix), strict=True)
    each = [theirs / mine for mine, theirs in pairs]
    return {
        "ratio": min(bests(tunix)) / min(bests(ours)), "ratios": each,
        "lowest_ratio": min(each), "highest_ratio": max(each),
    }  # fmt: skip


if __name__ == "__main__":
    main()
