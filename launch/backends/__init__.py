"""Where units run. A new backend is a file here and its line in `BACKENDS`."""

from collections.abc import Mapping

from launch.backends import gke, local, tpu_vm, xm
from launch.plan import Backend

BACKENDS: Mapping[str, Backend] = {
    "local": local.plan,
    "tpu_vm": tpu_vm.plan,
    "gke": gke.plan,
    "xm": xm.plan,
}

__all__ = ["BACKENDS"]
