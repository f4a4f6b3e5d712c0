"""The names of metrics that docs/metrics.md knows."""

import pathlib
import re

DOCS = pathlib.Path(__file__).parent.parent / "docs" / "metrics.md"
ROLES = "(designer|agent)"


def documented() -> list[str]:
    """What the first columns of the tables name."""
    cells = [line.split("|")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def undocumented(names) -> set[str]:
    """Those of the names, but "step", that are not in the documentation. A word in capitals stands
    there for anything."""
    patterns = [
        "/".join(
            ROLES if part == "ROLE" else "[^/]+" if part.isupper() else re.escape(part)
            for part in name.split("/")
        )
        for name in documented()
    ]
    pattern = re.compile("|".join(patterns))
    return {name for name in names if name != "step" and not pattern.fullmatch(name)}
