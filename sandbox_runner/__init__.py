"""Runs untrusted, generated environment programs in confined child processes."""

from sandbox_runner.pool import BlockingPool, Pool
from sandbox_runner.types import (
    BatchError,
    EnvError,
    Limits,
    Observation,
    RunnerError,
    Session,
    StepResult,
    Verdict,
)
from sandbox_runner.validation import validate

__all__ = [
    "BatchError",
    "BlockingPool",
    "EnvError",
    "Limits",
    "Observation",
    "Pool",
    "RunnerError",
    "Session",
    "StepResult",
    "Verdict",
    "validate",
]
