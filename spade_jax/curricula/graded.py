r"""Fixed environments whose difficulty can be set, in three dialects.

"contract"
    An environment as the designer writes it. Level k is the class constant `N`, a number, plus k.
"rlve"
    A class with `generator` (or `_generate`), `prompt_generator` (or `_prompt_generate`) and
    `scorer` or `verifier`: one question, one answer. Level k is what the controller in the same
    file, a class with `get_parameter_list` and `update`, gives after k updates.
"gem"
    A class made from `gem.core.Env`. Level k is its constructor's `complexity` of k + 1, up to 10.

A list of parameter sets, easiest first, replaces those rules: constants of a "contract" file, the
`parameter` of an "rlve" one, constructor arguments of a "gem" one. What a file imports of its own
package or of torch, which it may only seed, has stand-ins: no such package is needed.
"""

import ast
import re
from typing import Any

import jinja2
import msgspec

from spade_jax.envs.library import knob_of, with_knob

COMPLEXITIES = 10  # of an environment with a `complexity`

Parameters = dict[str, Any]


class GradedError(ValueError):
    """A file's difficulty can not be set as asked for."""


class Graded(msgspec.Struct):
    """One file.

    Attributes:
        text: as it is in the file.
        levels: parameter sets of each level, of which an episode's seed picks one; None where
            the file has a rule of its own, or nothing to set.
        limit: how many levels there are; None without an end.
        skill, hint: "" without one.
        shareable: found by validation.
    """

    name: str
    text: str
    dialect: str
    levels: list[list[Parameters]] | None = None
    limit: int | None = 1
    skill: str = ""
    hint: str = ""
    shareable: bool = False

    def source(self, level: int = 0) -> str:
        """The program of a level, in the environment contract."""
        if self.dialect == "contract":
            return self._with_constants(level)
        parameters = None if self.levels is None else self.levels[level]
        if self.dialect == "gem" and parameters is None:
            parameters = [{"complexity": level + 1} if self.limit == COMPLEXITIES else {}]
        head, body = _split_future(self.text)
        return _TEMPLATES.get_template(f"{self.dialect}.py.j2").render(
            head=head, body=body, level=level, parameters=parameters
        )

    def _with_constants(self, level: int) -> str:
        text = self.text
        if self.levels is None:
            return with_knob(text, knob_of(text) + level) if level else text
        for name, value in self.levels[level][0].items():
            text = _constant(name).sub(lambda found, v=value: f"{found[1]}{v!r}", text, count=1)
        return text


_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("spade_jax.curricula", "dialects"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,
)


def graded(name: str, text: str, levels: list | None = None, **more) -> Graded:
    """Reads a file's dialect and its rule of difficulty; runs nothing of it.

    Args:
        levels: for each level a parameter set, or a list of them.
        more: other fields of `Graded`.

    Raises:
        GradedError: the levels are none, or the file has neither levels nor a rule where it needs
            one.
    """
    tree = _tree(text)
    dialect = _dialect(tree)
    sets = None if levels is None else _sets(levels)
    if sets is not None:
        limit: int | None = len(sets)
        if dialect == "contract":
            _check_constants(text, sets)
    elif dialect == "rlve":
        if not _has_class(tree, {"get_parameter_list", "update"}):
            raise GradedError(
                "neither a class with get_parameter_list and update nor levels in a .json beside it"
            )
        limit = None
    elif dialect == "gem":
        limit = COMPLEXITIES if "complexity" in _constructor_arguments(tree) else 1
    else:
        limit = 1 if knob_of(text) is None else None
    return Graded(name, text, dialect, sets, limit, **more)


def _sets(levels: Any) -> list[list[Parameters]]:
    sets = [each if isinstance(each, list) else [each] for each in levels or ()]
    named = all(isinstance(one, dict) for each in sets for one in each)
    if not isinstance(levels, list) or not sets or not all(sets) or not named:
        raise GradedError('"levels" must be a list of parameter sets, or of lists of them')
    return sets


def _check_constants(text: str, sets: list[list[Parameters]]) -> None:
    for parameters in sets:
        if len(parameters) != 1:
            raise GradedError('"levels" of a file in the contract take one set of constants each')
        for name in parameters[0]:
            if not name.isidentifier() or not _constant(name).search(text):
                raise GradedError(f'"levels" name {name}, but no line reads "{name} = ..."')


def _constant(name: str) -> re.Pattern:
    return re.compile(rf"^([ \t]*{re.escape(name)} = ).*$", re.MULTILINE)


def _tree(text: str) -> ast.Module:
    """An empty one for what does not parse: the sandbox says why."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _dialect(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module]
        if any(module.partition(".")[0] == "gem" for module in modules):
            return "gem"
    methods = ({"_generate", "_prompt_generate"}, {"generator", "prompt_generator"})
    return "rlve" if any(_has_class(tree, names) for names in methods) else "contract"


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _has_class(tree: ast.Module, methods: set[str]) -> bool:
    return any(
        methods <= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        for node in _classes(tree)
    )


def _constructor_arguments(tree: ast.Module) -> set[str]:
    return {
        argument.arg
        for node in _classes(tree)
        for part in node.body
        if isinstance(part, ast.FunctionDef) and part.name == "__init__"
        for argument in (*part.args.args, *part.args.kwonlyargs)
    }


def _split_future(text: str) -> tuple[str, str]:
    """The text up to the last import from __future__, which must stay the first, and the rest."""
    ends = [
        (node.end_lineno, node.end_col_offset)
        for node in _tree(text).body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    if not ends:
        return "", text
    number, column = max(ends)  # of UTF-8 bytes
    lines = text.split("\n")
    last = lines[number - 1].encode()
    rest = last[column:].decode().lstrip(" \t\f\r;")  # what follows it on its line
    head = [*lines[: number - 1], last[:column].decode()]
    return "\n".join(head), "\n".join([*([rest] if rest else []), *lines[number:]])
