"""What the benchmarks for one CUDA GPU share: options, cases one after the other, and their table.

Device time is scarce: a case that fails says why, and the others go on; none begins after
`--seconds`. `--only=TEXT` runs the cases whose name contains it, `--json=FILE` keeps all numbers
beside those that other benchmarks left there, `--tiny` runs the same code on any device in seconds.
"""

import argparse
import gc
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax

from benchmarks import sampler_roofline as roofline
from benchmarks.sampler_workload import ModelShape
from benchmarks.tables import print_header, print_row
from spade_jax.models import ModelConfig

Case = tuple[str, Callable[[], dict]]  # its name, and what measures it


def options(summary: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--tiny", action="store_true", help="a tiny model, on any device")
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    parser.add_argument("--seconds", type=float, default=300, help="no case begins after them")
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    return parser.parse_args(arguments)


def shape_of(c: ModelConfig) -> ModelShape:
    return ModelShape(
        c.num_layers, c.d_model, c.num_heads, c.num_kv_heads, c.head_dim, c.d_ff, c.vocab_size,
        c.dtype,
    )  # fmt: skip


def missing(name: str, chosen: argparse.Namespace) -> bool:
    """Whether there is no GPU though one is needed, which it says."""
    if jax.devices()[0].platform == "gpu" or chosen.tiny:
        return False
    print(f"{name} needs a CUDA GPU and `pip install 'jax[cuda12]'`; --tiny does not")
    return True


def about(peaks: roofline.Peaks) -> dict:
    return {
        "device": jax.devices()[0].device_kind, "jax": jax.__version__,
        "tflops": peaks.flops / 1e12, "gb_s": peaks.bandwidth / 1e9,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }  # fmt: skip


def run(
    name: str, facts: dict, cases: Sequence[Case], columns: Mapping[str, str],
    chosen: argparse.Namespace, end: float,
) -> int:  # fmt: skip
    """Prints the table and returns the exit status: 1 if a case failed.

    Args:
        facts: of `about`.
        columns: heads and keys of what the cases measure.
        end: on `time.monotonic`; no case begins after it.
    """
    print(json.dumps(facts), flush=True)
    print_header(["case", *columns])
    rows = {}
    for case, measure in cases:
        if chosen.only not in case:
            continue
        late = time.monotonic() > end
        rows[case] = row = {"skipped": "out of time"} if late else attempt(measure)
        print_row([case, *cells(row, columns)])
        keep(chosen.json, name, {"about": facts, "cases": rows})
    return int(any("error" in row for row in rows.values()))


def keep(path: Path | None, name: str, result: dict) -> None:
    if path:
        others = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(others | {name: result}, indent=1))


def cells(row: dict, columns: Mapping[str, str]) -> list:
    """The table's, or the one word why there are none."""
    if reason := row.get("error") or row.get("skipped"):
        return [reason]
    return [row.get(key, "-") for key in columns.values()]


def attempt(measure: Callable[[], dict]) -> dict:
    """The case's numbers, or its error: device time is too scarce for one to end them all."""
    gc.collect()  # what the last one left in cycles
    try:
        row = measure()
    except Exception as error:
        said = str(error).strip().splitlines() or [""]
        return {"error": f"{type(error).__name__}: {said[0][:300]}"}
    memory = jax.devices()[0].memory_stats() or {}  # none on CPU
    return row | {"peak_gb": memory.get("peak_bytes_in_use", 0) / 1e9}


def timed(function: Callable, *arguments) -> tuple[float, object]:
    began = time.perf_counter()
    result = jax.block_until_ready(function(*arguments))
    return time.perf_counter() - began, result
