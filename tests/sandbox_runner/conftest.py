"""One pool for all tests that do not end it, and the programs under `data/`."""

from pathlib import Path

import pytest

from sandbox_runner import BlockingPool, Limits

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def pool():
    """With budgets small enough that a program which breaks them does not hold up the suite."""
    with BlockingPool(Limits(call_cpu=0.5, load_cpu=0.5, sleep_wall=0.5)) as shared:
        yield shared


@pytest.fixture(scope="session")
def program():
    """`program("sound/guess_number")` is the source of that file."""
    return lambda name: (DATA / f"{name}.py").read_text()
