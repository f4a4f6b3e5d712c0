"""Processes as the system sees them: a confined program does not know its own number."""

from pathlib import Path


def below(pid: int) -> list[int]:
    """Every process that `pid` has started, and theirs, parents first."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, children) for each in (child, *below(child))]


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
