"""python -m benchmarks.sampler: the sampling engine beside google-tunix 0.1.7, part by part.

Each engine has a process of its own, tunix an environment of its own, made at the first run under
`--cache`. They take turns, round by round, so that only one computes and both meet the same noise
of the machine. A part is played once to compile and `--rounds` times for the table. Both must have
equally many parameters, and lengths that can come from one distribution: see `sampler_workload`.

The bounds of `sampler_roofline` are measured in our engine's process. `--scaling` adds our engine
alone over more slots and longer cache rows; `--alone` leaves tunix out; `--json=FILE` keeps all.
Half an hour on two cores.
"""

import argparse
import contextlib
import dataclasses
import json
import statistics
from collections.abc import Sequence

from scipy import stats

from benchmarks import beside_tunix
from benchmarks import sampler_roofline as roofline
from benchmarks.beside_tunix import UnequalError
from benchmarks.sampler_workload import PARTS, ModelShape, Part, Reply
from benchmarks.tables import print_header, print_row
from benchmarks.worker import Worker

OURS, TUNIX = "benchmarks.sampler_engine", "benchmarks.sampler_tunix"
SAME = 1e-4  # chance at which one distribution of lengths is no longer believed, per part
COLUMNS = {
    "tok/s": "tok_s", "tunix tok/s": "tunix_tok_s", "ratio": "ratio", "lowest": "lowest_ratio",
    "highest": "highest_ratio", "per CPU second": "cpu_ratio", "slot use": "slot_use",
    "tunix slot use": "tunix_slot_use", "compiles": "compiles", "tunix compiles": "tunix_compiles",
    "of roof": "of_roof", "of floor": "of_floor", "lengths p": "same_lengths_p",
}  # fmt: skip
ALONE = "tok_s", "all_tok_s", "slot_use", "compiles", "of_roof", "of_floor"
STEP_ROWS = 16, 32  # besides the slots: rows at which the model's matrix products are timed
SLOTS, ROWS = (16, 64, 256), (256, 512, 1024, 2048, 4096)
REPLY = 136  # tokens of a row that the longest prompt leaves


@dataclasses.dataclass(frozen=True)
class Round:
    """What one engine did in one round; see `Server.play` of `sampler_worker`."""

    calls: list[list[Reply]]
    wall: float
    cpu: float
    slot_steps: int
    compiles: int
    num_params: int

    @property
    def lengths(self) -> list[int]:
        return [reply.sampled for call in self.calls for reply in call]

    @property
    def rate(self) -> float:
        """Useful tokens per second: those up to and with the stop id."""
        return sum(self.lengths) / self.wall

    @property
    def all_rate(self) -> float:
        """Tokens that were read or sampled per second."""
        read = sum(reply.prompt - reply.known for call in self.calls for reply in call)
        return (read + sum(self.lengths)) / self.wall

    @property
    def cpu_rate(self) -> float:
        return sum(self.lengths) / self.cpu


def main() -> None:
    options = _options()
    with contextlib.ExitStack() as stack:
        both = beside_tunix.opened(options, "benchmarks.sampler_worker", OURS, TUNIX)
        ours, tunix, about = stack.enter_context(both)
        peaks = measured_peaks(ours)
        print(json.dumps(about | {"gflops": peaks.flops / 1e9, "gb_s": peaks.bandwidth / 1e9}))
        result = {"about": about, "peaks": dataclasses.asdict(peaks), "parts": {}, "scaling": {}}
        print_header(["part", *COLUMNS])
        # Also what was measured before an error.
        stack.callback(beside_tunix.keep, options.json, result)
        for name in options.parts:
            rounds = play_rounds(PARTS[name], ours, tunix, options.rounds)
            row = summary(PARTS[name], *rounds, peaks)
            result["parts"][name] = row
            print_row([name, *(row.get(key, "-") for key in COLUMNS.values())])
        if options.scaling:
            print_header(["slots x row", *ALONE])
            for part in scaling_parts():
                rounds, _ = play_rounds(part, ours, None, options.rounds)
                row = alone(part, rounds, peaks)
                result["scaling"][part.name] = row
                print_row([part.name, *(row[key] for key in ALONE)])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=5, help="per part, after one to compile")
    parser.add_argument("--scaling", action="store_true", help="our engine at other sizes, too")
    beside_tunix.add_options(parser)
    return parser.parse_args()


def measured_peaks(worker: Worker) -> roofline.Peaks:
    rows = {part.slots for part in PARTS.values()} | {*STEP_ROWS, *SLOTS}
    answer = worker.ask("peaks", rows=sorted(rows))
    answer["step"] = {int(rows): seconds for rows, seconds in answer["step"].items()}
    return roofline.Peaks(**answer)


def play_rounds(
    part: Part, ours: Worker, tunix: Worker | None, rounds: int
) -> tuple[list[Round], list[Round]]:
    """`rounds` of each engine, in pairs that swap order every time. The first plays are dropped."""
    played = {worker: [] for worker in (ours, tunix) if worker}
    for seed, worker in beside_tunix.alternated(ours, tunix, rounds):
        answer = worker.ask("play", part=dataclasses.asdict(part), seed=seed)
        answer["calls"] = [[Reply(*reply) for reply in call] for call in answer["calls"]]
        played[worker].append(Round(**answer))
    return played[ours][1:], played[tunix][1:] if tunix else []


def summary(part: Part, ours: list[Round], tunix: list[Round], peaks: roofline.Peaks) -> dict:
    """One part's numbers; those that compare only when tunix played.

    Raises:
        UnequalError: see `check_equal`.
    """
    row = alone(part, ours, peaks)
    if not tunix:
        return row
    same = check_equal(part.name, ours, tunix)
    wall, cpu = ratios(ours, tunix, "rate"), ratios(ours, tunix, "cpu_rate")
    theirs = {f"tunix_{key}": value for key, value in alone(part, tunix, peaks).items()}
    return row | theirs | {
        "ratio": statistics.median(wall), "ratios": wall,
        "lowest_ratio": min(wall), "highest_ratio": max(wall),
        "cpu_ratio": statistics.median(cpu), "cpu_ratios": cpu, "same_lengths_p": same,
    }  # fmt: skip


def alone(part: Part, rounds: list[Round], peaks: roofline.Peaks) -> dict:
    """Medians over the rounds of one engine; `of_roof` and `of_floor` are shares of the bounds."""
    median, shape, slots = statistics.median, ModelShape(), part.slots
    return {
        "tok_s": median(r.rate for r in rounds),
        "all_tok_s": median(r.all_rate for r in rounds),
        "tok_cpu_s": median(r.cpu_rate for r in rounds),
        "slot_use": sum(sum(r.lengths) for r in rounds) / sum(r.slot_steps for r in rounds),
        "compiles": sum(r.compiles for r in rounds),
        "of_roof": median(roofline.roof(shape, r.calls, slots, peaks) / r.wall for r in rounds),
        "of_floor": median(roofline.floor(r.calls, slots, peaks) / r.wall for r in rounds),
        "mean_length": statistics.mean(length for r in rounds for length in r.lengths),
        "num_params": rounds[0].num_params,
        "wall": [r.wall for r in rounds],
        "cpu": [r.cpu for r in rounds],
    }


def ratios(ours: list[Round], tunix: list[Round], rate: str) -> list[float]:
    """Ours over theirs in each pair of rounds."""
    return [getattr(a, rate) / getattr(b, rate) for a, b in zip(ours, tunix, strict=True)]


def check_equal(name: str, ours: list[Round], tunix: list[Round]) -> float:
    """The chance of lengths as different as these if they have one distribution.

    Raises:
        UnequalError: the chance is below `SAME`, or the models have not equally many parameters.
    """
    sizes = ours[0].num_params, tunix[0].num_params
    if sizes[0] != sizes[1]:
        raise UnequalError(f"{name}: our model has {sizes[0]} parameters, tunix's {sizes[1]}")
    chance = same_lengths(*([n for r in rounds for n in r.lengths] for rounds in (ours, tunix)))
    if chance < SAME:
        raise UnequalError(f"{name}: the lengths have two distributions (p={chance:.1e})")
    return chance


def same_lengths(a: Sequence[int], b: Sequence[int]) -> float:
    """p-value of a two-sample Kolmogorov-Smirnov test; with ties, as here, it errs towards 1."""
    return float(stats.ks_2samp(a, b, method="asymp").pvalue)


def scaling_parts() -> list[Part]:
    """Twice as many varied requests as slots over longer cache rows, which the requests do not
    fill; then as many as slots, whose prompts do."""
    sizes = [(slots, ROWS[0]) for slots in SLOTS] + [(SLOTS[1], row) for row in ROWS[1:]]
    loose = [
        Part(f"{slots}x{row}", slots=slots, max_len=row, prompts=2 * slots, per_call=2 * slots)
        for slots, row in sizes
    ]
    return loose + [
        Part(f"{SLOTS[0]}x{row} filled", slots=SLOTS[0], max_len=row, prompts=SLOTS[0],
             prompt=4 * (row - REPLY) // 5)
        for row in ROWS
    ]  # fmt: skip


if __name__ == "__main__":
    main()
