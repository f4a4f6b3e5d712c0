"""What every test shares: eight CPU devices and compiled programs that outlive the run."""

import os
import tempfile
from pathlib import Path

import jax

CPU_DEVICES = 8


def pytest_configure() -> None:
    """Set before any test touches a device: afterwards JAX refuses to change the device count."""
    jax.config.update("jax_num_cpu_devices", CPU_DEVICES)
    cache = Path(tempfile.gettempdir()) / f"spade_jax_test_cache_{os.getuid()}"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_collection_modifyitems(items: list) -> None:
    """The longest files first: with `make test` a worker each has them, a third one the rest."""
    longest = ("test_train.py", "test_recipes.py")
    items.sort(key=lambda item: item.path.name not in longest)
