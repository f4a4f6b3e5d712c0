"""Small runs of configs/tiny.py, and when two of them are alike."""

import subprocess
import sys

import pytest

STEPS = 3
OVERRIDES = {
    "steps": STEPS,
    "warm_start.designs": 150,
    "warm_start.episodes": 300,
    "warm_start.steps": 90,
    "warm_start.tokens": 2048,
    "text.vocab_size": 800,
    "curriculum.num_envs": 6,
    "curriculum.max_attempts": 1,
    "agent.plays_per_env": 2,
    "agent.hint_plays_per_env": 2,
    "designer.temperature": 0.5,
    "eval.episodes": 1,
    "checkpoint.every": 1,
    "sampler.designer.num_slots": 6,
    "sampler.agent.num_slots": 24,
    "learner.designer.rows": 2,
    "learner.agent.rows": 4,
}
WALL = 1200  # seconds; a hang, on however busy a machine


def command(workdir, *more, **overrides):
    settings = {**OVERRIDES, **overrides}
    return [
        sys.executable, "-m", "spade_jax.main", "--config=configs/tiny.py", f"--workdir={workdir}",
        *(f"--config.{key}={value}" for key, value in settings.items()), *more,
    ]  # fmt: skip


def run(workdir, *more, **overrides):
    done = subprocess.run(
        command(workdir, *more, **overrides),
        capture_output=True, text=True, timeout=WALL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def comparable(rows):
    """Metrics without times and rates, and without what the engines did for their results, which
    depends on when their jobs ended and environments answered."""
    clocked = ("time/", "rate/", "sampler/")
    return [{k: v for k, v in row.items() if not k.startswith(clocked)} for row in rows]


def assert_alike(rows, expected):
    """The same numbers but for rounding; held-out scores may be missing."""
    assert [row["step"] for row in rows] == [row["step"] for row in expected]
    for row, other in zip(comparable(rows), comparable(expected), strict=True):
        for name, value in row.items():
            assert value == pytest.approx(other[name], rel=1e-5, abs=1e-5), (
                row["step"], name, value, other[name]
            )  # fmt: skip
        assert all(name.startswith("eval/") for name in other.keys() - row.keys())
