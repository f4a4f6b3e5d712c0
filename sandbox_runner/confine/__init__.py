"""What stands between an untrusted program and the machine, one module per kind of layer."""

from sandbox_runner.confine.layers import (
    ALLOWABLE,
    LAYERS,
    REQUIRED,
    Host,
    Newborn,
    Report,
    confine,
    enter_namespaces,
    insist,
    settle,
    unmet,
)
from sandbox_runner.confine.process import die_with_parent, first_victim

__all__ = [
    "ALLOWABLE",
    "LAYERS",
    "REQUIRED",
    "Host",
    "Newborn",
    "Report",
    "confine",
    "die_with_parent",
    "enter_namespaces",
    "first_victim",
    "insist",
    "settle",
    "unmet",
]
