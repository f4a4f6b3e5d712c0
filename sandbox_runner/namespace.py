"""The names a program finds ready, since generated code often forgets its imports."""

from __future__ import annotations

import abc
import ast
import base64
import bisect
import builtins
import collections
import contextlib
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import heapq
import importlib
import inspect
import io
import itertools
import json
import math
import operator
import random
import re
import statistics
import string
import sys
import textwrap
import time
import traceback
import types
import typing
import uuid
from collections.abc import Sequence
from typing import Any

import math_verify
import numpy

from sandbox_runner import contract
from sandbox_runner.tool_use import MultiTurnToolUseEnv, ToolUseEnv

_MODULES = (
    abc, ast, base64, bisect, collections, contextlib, copy, dataclasses, datetime, decimal, enum,
    fractions, functools, hashlib, heapq, inspect, io, itertools, json, math, math_verify, numpy,
    operator, random, re, statistics, string, sys, textwrap, time, traceback, types, typing, uuid,
)  # fmt: skip
_MEMBERS = {
    collections: ("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"),
    dataclasses: ("dataclass", "field", "asdict"),
    abc: ("ABC", "abstractmethod"),
    copy: ("deepcopy",),
    enum: ("Enum", "IntEnum", "auto"),
    fractions: ("Fraction",),
    decimal: ("Decimal",),
    functools: ("lru_cache", "partial", "reduce"),
    itertools: ("accumulate", "chain", "combinations", "permutations", "product"),
    math_verify: ("parse", "verify"),
}
_GRADED = (
    ("$3/4$", r"\boxed{0.75}"),
    ("$197/8$", "$apple$"),
    ("$7$", "$window$"),
    ("$x+1$", r"$\frac{x^2-1}{x-1}$"),
)
_ALLOWED = sys.stdlib_module_names | {"numpy", "math_verify", contract.MODULE}
_PRELOADED = (
    "_bz2", "_csv", "_datetime", "_decimal", "_elementtree", "_hashlib", "_json", "_lzma",
    "_queue", "_random", "_statistics", "_struct", "_uuid", "_zoneinfo", "array", "audioop",
    "binascii", "calendar", "cmath", "colorsys", "concurrent.futures", "csv", "difflib",
    "email.message", "fnmatch", "gettext", "graphlib", "html.parser", "ipaddress", "locale",
    "logging", "mmap", "multiprocessing", "numbers", "numpy.fft", "numpy.linalg", "numpy.random",
    "optparse", "pathlib", "pickle", "pprint", "pyexpat", "queue", "resource", "secrets", "select",
    "shlex", "socket", "sqlite3", "struct", "symtable", "tempfile", "threading", "tokenize",
    "unicodedata", "urllib.parse", "weakref", "xml.etree.ElementTree", "zlib", "zoneinfo",
)  # fmt: skip


def preload(packages: Sequence[str] = ()) -> None:
    """Imports what a confined child could not: a compiled module needs memory that is executable.

    Pure modules are found later too; those here are common enough to be shared by all children.
    Raises ImportError for a package that is not installed.
    """
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):  # not every Python has every one of them
            importlib.import_module(name)
    for name in packages:
        importlib.import_module(name)


def warm_up() -> None:
    """Fill the caches that first uses of math_verify would fill, once for all children.

    A grader's first comparison with a word costs 0.4 s of CPU time, later ones about 0.02 s.
    """
    for gold, given in _GRADED:
        math_verify.verify(math_verify.parse(gold), math_verify.parse(given))


def prepare_module(packages: Sequence[str] = ()) -> types.ModuleType:
    """The module that a program will be loaded into, with the usual names and allowed imports.

    A zygote makes it once: every child then has its own copy by having been forked. Importing
    anything but the standard library, numpy, math_verify and `packages` from the program itself
    raises ImportError, so that a program runs alike on every machine.
    """
    allowed = _ALLOWED | {name.partition(".")[0] for name in packages}

    def checked(name, globals=None, locals=None, fromlist=(), level=0):
        top = name.partition(".")[0]
        if level == 0 and top not in allowed:
            raise ImportError(
                f"{top} is not available: only the standard library and "
                f"{', '.join(('numpy', 'math_verify', *packages))} are"
            )
        return builtins.__import__(name, globals, locals, fromlist, level)

    names: dict[str, Any] = {name: getattr(typing, name) for name in typing.__all__}
    names.update((module.__name__, module) for module in _MODULES)
    for module, members in _MEMBERS.items():
        names.update((member, getattr(module, member)) for member in members)
    names.update(np=numpy, ToolUseEnv=ToolUseEnv, ToolUseBaseEnv=ToolUseEnv)
    names.update(MultiTurnToolUseEnv=MultiTurnToolUseEnv)
    guarded = dict(vars(builtins))
    guarded["__import__"] = checked
    module = types.ModuleType(contract.MODULE)
    vars(module).update(names, __builtins__=guarded)
    return module
