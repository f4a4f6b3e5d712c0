"""`machine`: documentation that every Python installation already has; nothing is downloaded.

One document per topic of the language reference and one per module: its docstrings, headed by the
signatures they belong to. Sources are read as text and parsed; no package is imported.
"""

import ast
import importlib.util
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from spade_jax.grounding.corpus import CorpusError, Document, checked_index

# Those that are not installed are left out.
PACKAGES = (
    "einops", "flax", "gymnasium", "jax", "jinja2", "msgspec", "networkx", "numpy", "optax", "rich",
    "scipy", "sortedcontainers", "sympy",
)  # fmt: skip
SKIPPED_FOLDERS = {
    "__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "test", "testing", "tests",
    "turtledemo",
}  # fmt: skip
MIN_WORDS, MAX_WORDS = 150, 6000
_MAX_BYTES = 1_000_000

_STRING = re.compile(rb'"""([^"]*(?:"(?!"")[^"]*)*)"""')


class MachineCorpus:
    """Topics by name, then modules by name. A module is parsed when it is asked for."""

    def __init__(self) -> None:
        """Raises CorpusError when there is nothing to read."""
        self._topics = _topics()
        self._modules = sorted(_modules())
        if not len(self):
            raise CorpusError("machine: neither pydoc topics nor the standard library's sources "
                              "are installed here; use another corpus")

    def __len__(self) -> int:
        return len(self._topics) + len(self._modules)

    def __getitem__(self, index: int) -> Document:
        index = checked_index(index, len(self))
        if index < len(self._topics):
            name, text = self._topics[index]
            return Document(f"topic:{name}", text, {"kind": "topic"})
        name, path = self._modules[index - len(self._topics)]
        return Document(f"module:{name}", module_text(name, path), {"kind": "module"})


def open_source(argument: str, base_dir: Path) -> MachineCorpus:
    """Takes no argument."""
    del base_dir
    if argument:
        raise CorpusError(f"machine takes no argument, got {argument!r}")
    return MachineCorpus()


def module_text(name: str, path: Path) -> str:
    """The docstrings of a module in source order, each under its name and arguments."""
    source = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in other people's strings
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # written for another Python
        found = [match.decode("utf-8", "replace") for match in _rough_docstrings(source)]
        return "\n\n".join([f"Module {name}", *found])
    pieces = [f"Module {name}"]
    words = 0
    for heading, docstring in _docstrings(tree):
        pieces.append(f"{heading}\n{docstring}" if heading else docstring)
        words += len(docstring.split())
        if words >= MAX_WORDS:
            break
    return "\n\n".join(pieces)


def _docstrings(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(heading, docstring) of a module, class or function and of all that is nested in it."""
    heading = ""
    if isinstance(node, ast.ClassDef):
        heading = f"class {prefix}{node.name}"
        prefix = f"{prefix}{node.name}."
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        heading = f"{prefix}{node.name}({ast.unparse(node.args)})"
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        docstring = ast.get_docstring(node)
        if docstring:
            yield heading, docstring
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from _docstrings(child, prefix)


def _topics() -> list[tuple[str, str]]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return []
    return [(name, text) for name, text in sorted(topics.items())
            if len(text.split()) >= MIN_WORDS]


def _modules() -> Iterator[tuple[str, Path]]:
    yield from _documented(Path(sysconfig.get_paths()["stdlib"]), "")
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from _documented(Path(folder), package)


def _documented(root: Path, package: str) -> Iterator[tuple[str, Path]]:
    """Dotted names and files below `root` whose docstrings have at least MIN_WORDS words."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        for path in (Path(folder, name) for name in files if name.endswith(".py")):
            if not path.is_file():
                continue
            source = path.read_bytes()
            if len(source) <= _MAX_BYTES and _words(source) >= MIN_WORDS:
                parts = [package, *path.relative_to(root).with_suffix("").parts]
                yield ".".join(part for part in parts if part and part != "__init__"), path


def _words(source: bytes) -> int:
    return sum(len(docstring.split()) for docstring in _rough_docstrings(source))


def _rough_docstrings(source: bytes) -> Iterator[bytes]:
    """Strings that open the file or follow a colon: cheap enough to choose among thousands."""
    for match in _STRING.finditer(source):
        before = source[:match.start()].rstrip(b"rRuU").rstrip()
        if before.endswith(b":") or not _has_code(before):
            yield match[1]


def _has_code(source: bytes) -> bool:
    return any(line[:1] not in b"#" for line in source.splitlines())
