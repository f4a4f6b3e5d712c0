"""Every prompt is a text file in a folder of this package; this module only fills it in."""

import jinja2


class PromptError(ValueError):
    """A prompt style or template does not exist, or a value that it needs is missing."""


COMMON = "chat"  # the style whose templates the others use where they have none of their own


class Prompts:
    """The templates of one style, for example "compact" for the small from-scratch model."""

    def __init__(self, style: str):
        if not _exists(style):
            raise PromptError(f"prompts={style!r} is unknown; known: {', '.join(styles())}")
        folders = [jinja2.PackageLoader("spade_jax", f"prompts/{name}") for name in (style, COMMON)]
        self._environment = jinja2.Environment(
            loader=jinja2.ChoiceLoader(folders),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
        )

    def render(self, name: str, **values) -> str:
        """The filled template, without its final newline.

        Raises:
            PromptError: no such template, or a value is missing.
        """
        try:
            return self._environment.get_template(f"{name}.txt.j2").render(**values).rstrip("\n")
        except (jinja2.TemplateNotFound, jinja2.UndefinedError) as error:
            raise PromptError(f"prompt {name!r}: {error}") from error


def styles() -> list[str]:
    """Names of the styles that exist."""
    names = jinja2.PackageLoader("spade_jax", "prompts").list_templates()
    return sorted({name.split("/")[0] for name in names if "/" in name and "__" not in name})


def _exists(style: str) -> bool:
    return style in styles()
