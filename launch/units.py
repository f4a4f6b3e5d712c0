"""From a sweep to its units: one run of `spade_jax.main` each, with a workdir of its own."""

import dataclasses
import hashlib
import inspect
import itertools
import re
import runpy
from collections.abc import Iterable, Mapping
from typing import Any

from launch.bucket import mounted
from launch.errors import LaunchError
from launch.sweeps import Sweep


@dataclasses.dataclass(frozen=True)
class Unit:
    """Attributes:
    name: unique in the sweep; "seed_0/full" is also its folder under the sweep's workdir.
    workdir: a folder, or a `gs://` path.
    arguments: what follows `python -m spade_jax.main` on the command line; there a bucket is the
        folder as which it is mounted.
    after: name of the unit that must have finished before this one starts.
    """

    name: str
    workdir: str
    arguments: tuple[str, ...]
    after: str | None = None

    def command(self, python: str, *more: str) -> tuple[str, ...]:
        return (python, "-m", "spade_jax.main", *self.arguments, *more)

    @property
    def resource(self) -> str:
        """What it is called in a cloud: its own for its workdir, at most 40 of [a-z0-9-]."""
        words = re.sub(r"[^a-z0-9]+", "-", "/".join(self.workdir.split("/")[-3:]).lower())
        digest = hashlib.sha256(self.workdir.encode()).hexdigest()[:6]
        return f"{words[:33].lstrip('-0123456789').rstrip('-')}-{digest}"


def arm_name(arm: str, seed: int) -> str:
    return f"seed_{seed}/{arm.replace(' ', '_')}"


def units(sweep: Sweep, workdir: str, changes: Mapping[str, Any] | None = None) -> list[Unit]:
    """Every arm of every seed under `workdir`, after the seed's warm start where it is shared.

    Args:
        changes: overrides of every unit, stronger than the sweep's own.
    """
    root = workdir.rstrip("/")
    seen = mounted(root)
    # With the runs, not on a host: a slice that is asked for again finds its programs there.
    common = {**sweep.common, "compilation_cache": f"{seen}/compilation_cache"}

    def unit(
        name: str, overrides: Mapping[str, Any], *more: str, after: str | None = None,
        recipe: str = sweep.config,
    ):  # fmt: skip
        settings = {**common, **overrides, **(changes or {})}
        flags = (f"--config.{key}={value}" for key, value in settings.items())
        arguments = (f"--config={recipe}", f"--workdir={seen}/{name}", *flags, *more)
        return Unit(name, f"{root}/{name}", arguments, after)

    made = []
    warm: dict[int, str | None] = dict.fromkeys(sweep.seeds)
    if sweep.share_warm_start:
        for seed in sweep.seeds:
            made.append(unit(arm_name("warm", seed), {"seed": seed}, "--mode=warm_start"))
            warm[seed] = made[-1].name
    for seed, (arm, overrides) in itertools.product(sweep.seeds, sweep.arms.items()):
        shared = {"warm_start.path": f"{seen}/{warm[seed]}"} if warm[seed] else {}
        settings = {**overrides, "seed": seed, **shared}
        made.append(
            unit(arm_name(arm, seed), settings, after=warm[seed], recipe=sweep.recipe(arm))
        )
    return made


def check_settings(config: str, keys: Iterable[str]) -> None:
    """Raises LaunchError where the recipe is missing or has no such setting.

    Args:
        config: a file, or FILE:SIZE as in --config.
    """
    file, _, size = config.partition(":")
    try:
        get_config = runpy.run_path(file)["get_config"]
        has_sizes = bool(inspect.signature(get_config).parameters)
        recipe = get_config(*([size] if size and has_sizes else []))
    except OSError as error:
        raise LaunchError(f"--config={config}: expected a recipe: {error.strerror}") from error
    except (TypeError, ValueError) as error:
        raise LaunchError(f"--config={config}: {error}") from error
    if size and not has_sizes:
        raise LaunchError(f"--size={size}: {file} has no sizes")
    for key in keys:
        value = recipe
        try:
            for part in key.split("."):
                value = value[part]
        except (KeyError, TypeError) as error:
            raise LaunchError(f"setting {key!r}: expected a key of {config}") from error
