"""What stands between an untrusted program and the machine, one module per kind of layer."""

from sandbox_runner.confine.layers import (
    LAYERS,
    MINIMUM,
    Report,
    confine,
    enter_namespaces,
    insist,
    probe,
)
from sandbox_runner.confine.process import adopt_orphans, keep_only, leave_file_system

__all__ = [
    "LAYERS",
    "MINIMUM",
    "Report",
    "adopt_orphans",
    "confine",
    "enter_namespaces",
    "insist",
    "keep_only",
    "leave_file_system",
    "probe",
]
