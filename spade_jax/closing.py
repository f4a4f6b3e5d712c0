"""The table that a run ends with: first against last iterations, held-out before against after."""

import pathlib
from collections.abc import Sequence

import rich
from rich.table import Table

from spade_jax.metrics import read_metrics

WINDOW = 5

ROWS = (
    ("designs valid", "designer/valid_fraction"),
    ("valid designs not verbatim in the warm start", "designer/novel_fraction"),
    ("agent win rate without hint", "agent/win_rate"),
    ("agent win rate with hint", "agent/win_rate_hint"),
    ("regret", "designer/regret"),
    ("environments trivial (> 0.8)", "designer/trivial_fraction"),
    ("environments in band", "designer/in_band_fraction"),
    ("environments hard (< 0.2)", "designer/hard_fraction"),
    ("difficulty knob, median", "designer/knob_median"),
    ("gradient norm, designer", "designer/grad_norm"),
    ("gradient norm, agent", "agent/grad_norm"),
    ("sampler/learner log-prob gap", "train/logprob_gap"),
)


def window_mean(rows: Sequence[dict], key: str) -> float | None:
    """Mean of a metric over the rows that have it."""
    values = [row[key] for row in rows if row.get(key) is not None]
    return sum(values) / len(values) if values else None


def summary(rows: Sequence[dict]) -> list[tuple[str, float | None, float | None]]:
    """(what, first, last): means over the first and last `WINDOW` iterations; for held-out scores
    the first and the last evaluation."""
    steps = [row for row in rows if row["step"] > 0]
    lines = [
        (label, window_mean(steps[:WINDOW], key), window_mean(steps[-WINDOW:], key))
        for label, key in ROWS
    ]
    scored = [row for row in rows if any(key.startswith("eval/") for key in row)]
    names = sorted({key for row in scored for key in row if key.startswith("eval/")})
    for name in names:
        if name.rsplit("/", 1)[1] in ("all", "hard", "stderr"):
            _, split, mode, group = name.split("/")
            label = f"held-out {split}, {mode}, {group}"
            lines.append((label, scored[0].get(name), scored[-1].get(name)))
    return lines


def closing_report(workdir: pathlib.Path) -> None:
    """Prints the table and the paths of what the run wrote."""
    rows = read_metrics(workdir)
    table = Table(title="first five against last five iterations")
    table.add_column("")
    table.add_column("first", justify="right")
    table.add_column("last", justify="right")
    for label, first, last in summary(rows):
        table.add_row(label, _cell(first), _cell(last))
    rich.print(table)
    for name in ("metrics.jsonl", "environments", "checkpoints", "tensorboard", "warm_start"):
        print(workdir / name)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if abs(value) < 1e-3 else f"{value:.3f}"
