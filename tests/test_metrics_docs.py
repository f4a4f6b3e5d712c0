"""docs/metrics.md knows every name that a run logs."""

import pathlib
import re

DOCS = pathlib.Path(__file__).parent.parent / "docs" / "metrics.md"
ROLES = "(designer|agent)"


def documented() -> re.Pattern[str]:
    """What the first columns of the tables name; a word in capitals stands for anything."""
    cells = [line.split("|")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    names = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    patterns = [
        "/".join(
            ROLES if part == "ROLE" else "[^/]+" if part.isupper() else re.escape(part)
            for part in name.split("/")
        )
        for name in names
    ]
    return re.compile("|".join(patterns))


def undocumented(names) -> set[str]:
    """Those of the names, but "step", that are not in the documentation."""
    pattern = documented()
    return {name for name in names if name != "step" and not pattern.fullmatch(name)}


def test_names_and_families_of_names_are_told_from_others():
    known = ["agent/win_rate", "designer/reward/causal_inference", "sampler/agent/slot_use",
             "designer/entropy", "eval/dev/greedy/level_1", "time/play"]  # fmt: skip
    assert undocumented(["step", *known]) == set()
    unknown = ["agent/fame", "sampler/judge/slot_use", "designer/reward/a/b", "agent/win_rate/",
               "win_rate"]  # fmt: skip
    assert undocumented([*known, *unknown]) == set(unknown)


def test_no_name_is_documented_twice():
    lines = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    names = [name for line in lines for name in re.findall(r"`([^`]+)`", line.split("|")[1])]
    assert sorted(names) == sorted(set(names))
