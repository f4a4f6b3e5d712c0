"""The three places that name the dependencies agree."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = re.compile(r"[A-Za-z0-9_.-]+")


def normalised(names: list[str]) -> set[str]:
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}


def requirement_lines() -> list[str]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_requirement_is_pinned_exactly():
    loose = [line for line in requirement_lines() if "==" not in line.split(";")[0]]
    assert loose == []


def with_its_extras(extras: dict[str, list[str]], name: str) -> list[str]:
    """The packages of an extra and of those that it names as spade_jax[OTHER]."""
    packages = []
    for line in extras[name]:
        other = re.fullmatch(r"spade_jax\[(.+)\]", line)
        packages += with_its_extras(extras, other.group(1)) if other else [line]
    return packages


def test_requirements_and_pyproject_name_the_same_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *with_its_extras(project["optional-dependencies"], "dev")]
    in_project = normalised([NAME.match(line).group() for line in named])
    in_requirements = normalised([NAME.match(line).group() for line in requirement_lines()])
    assert in_project == in_requirements


def test_every_requirement_has_its_reason_in_contributing():
    table = (ROOT / "CONTRIBUTING.md").read_text().split("## Dependencies")[1]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    explained = normalised(re.findall(r"`([^`]+)`", " ".join(first_cells)))
    in_requirements = normalised([NAME.match(line).group() for line in requirement_lines()])
    assert explained == in_requirements
