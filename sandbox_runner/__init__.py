"""Runs untrusted, generated environment programs in confined child processes.

Names are imported when they are first asked for: a keeper, which is this package's smallest
process, needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_runner.pool import BlockingPool, Pool
    from sandbox_runner.sessions import Batch
    from sandbox_runner.types import (
        BatchError,
        ConfinementError,
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
    "Batch",
    "BatchError",
    "BlockingPool",
    "ConfinementError",
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
_HOMES = {  # others: types
    "Batch": "sessions",
    "BlockingPool": "pool",
    "Pool": "pool",
    "validate": "validation",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'types')}"), name)
