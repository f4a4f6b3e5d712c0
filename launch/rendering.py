"""Renders the files under `templates/`; a value that nobody gave is an error."""

import json
import pathlib
import shlex

import jinja2

TEMPLATES = pathlib.Path(__file__).parent / "templates"


def render(template: str, **values) -> str:
    """The text of `templates/TEMPLATE`.

    Its filters: `quote` and `quoted` make one word, or a list of words, safe for a shell, and
    `json` makes a value safe for YAML.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True, autoescape=False,
    )  # fmt: skip
    environment.filters |= {"quote": shlex.quote, "quoted": shlex.join, "json": json.dumps}
    return environment.get_template(template).render(values)
