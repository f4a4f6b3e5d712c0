"""What is wrong with settings, and those that a folder was made with, kept in it and compared."""

import pathlib
from collections.abc import Sequence

import msgspec
from ml_collections import ConfigDict

FILE = "config.json"

# What a run may change when it goes on; a name that ends in a dot is a whole section.
MAY_CHANGE = (
    "steps", "eval.", "checkpoint.", "distributed.", "model.cache", "sandbox.", "compilation_cache",
    "warm_start.path", "warm_start.save_every", "wandb.", "mesh.", "replica.",
    "learner.designer.rows", "learner.agent.rows",  # which a mesh must divide
    *(f"remote.{key}" for key in (
        "base_url", "key_variable", "timeout_s", "deadline_s", "retries", "max_concurrency",
        "breaker_", "price_",
    )),
)  # fmt: skip


class ConfigError(ValueError):
    """A setting is impossible; the message names the key, its value and what was expected."""


class SettingsError(ValueError):
    """A folder was made with other settings; the message names them."""


def tie_to_config(config: ConfigDict, workdir: pathlib.Path) -> None:
    """Writes WORKDIR/config.json at the first start, and compares with it later.

    Raises:
        SettingsError: a setting differs that would mix two recipes in one run.
    """
    path = workdir / FILE
    if not path.exists():
        text = msgspec.json.format(msgspec.json.encode(plain(config)), indent=1)
        partial = path.with_suffix(".partial")
        partial.write_bytes(text)
        partial.rename(path)
        return
    if changed := differences(config, workdir):
        raise SettingsError(f"{describe(config, workdir, changed)}; use another --workdir")


def shared_settings(config: ConfigDict) -> dict:
    """The settings that all processes of a run have in common, by dotted key."""
    return {key: value for key, value in flat(config).items() if key != "distributed.process_id"}


def differences(config: ConfigDict, workdir: pathlib.Path) -> list[str]:
    """The dotted keys of `config` that may not change and whose values are not those that
    WORKDIR/config.json holds."""
    before, now = _stored(workdir), flat(config)
    return [
        key
        for key, value in now.items()
        if before.get(key) != value and not key.startswith(MAY_CHANGE)
    ]


def describe(config: ConfigDict, workdir: pathlib.Path, keys: Sequence[str]) -> str:
    """One sentence about settings that differ."""
    before, now = _stored(workdir), flat(config)
    changed = ", ".join(f"{key}={now[key]!r} (there {before.get(key)!r})" for key in keys)
    return f"{workdir} was made with other settings: {changed}"


def _stored(workdir: pathlib.Path) -> dict:
    return _flat(msgspec.json.decode((workdir / FILE).read_bytes()))


def plain(config: ConfigDict) -> dict:
    """The config as JSON content."""
    return msgspec.json.decode(config.to_json_best_effort())


def flat(config: ConfigDict) -> dict:
    """The config as JSON content by dotted key."""
    return _flat(plain(config))


def _flat(tree: dict, prefix: str = "") -> dict:
    flat = {}
    for key, value in tree.items():
        nested = isinstance(value, dict) and value
        flat |= _flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return flat
