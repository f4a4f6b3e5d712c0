"""python -m spade_jax.main --config=configs/tiny.py --workdir=runs/tiny [--config.KEY=VALUE ...]

Modes: train (default; resumes what is in the workdir), warm_start (its first stage alone), eval
(scores the newest checkpoint on the held-out set), generate (prints new designs with their
verdicts, or with --prompt=TEXT the model's answer as it comes), play (lets the model play one
environment file, without and with its hint, and prints the transcripts). Where the workdir holds no
checkpoint, the last three look at the public model of config.model.checkpoint. Explain needs no
workdir: it prints the resolved recipe, what differs from the one it starts from, and what a step
costs.
"""

import contextlib
import io
import pathlib
import sys
from collections.abc import Callable

from absl import app, flags, logging
from ml_collections import config_flags

from sandbox_runner import ConfinementError, RunnerError
from spade_jax import modes
from spade_jax.checkpoint import CheckpointError, SaveError, UnreadableError
from spade_jax.config import ConfigError, validate
from spade_jax.cycle import PoolError
from spade_jax.grounding import CorpusError
from spade_jax.metrics import MetricsError
from spade_jax.models import ModelError
from spade_jax.parallel import ClusterError, HostError, Hosts, MeshError, joined
from spade_jax.prompts import PromptError
from spade_jax.remote import RemoteSetupError
from spade_jax.settings import SettingsError
from spade_jax.sinks import WandbError
from spade_jax.text import TextError
from spade_jax.warm_start import WarmStartError

CONFIG = config_flags.DEFINE_config_file("config", None, "Recipe: a file under configs/.")
WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run; made when missing.")
EXPLAIN = "explain"
MODE = flags.DEFINE_enum("mode", "train", sorted([*modes.MODES, EXPLAIN]), "What to do.")
ENV = flags.DEFINE_string("env", None, "play: a Python file with one environment.")
SPLIT = flags.DEFINE_enum("split", None, ["dev", "test"], "eval: held-out set; default: dev.")
PROMPT = flags.DEFINE_string("prompt", None, "generate: answer this instead.")
COUNT = flags.DEFINE_integer("count", 4, "generate: how many designs.", lower_bound=1)

USAGE = 2  # exit code where the same command can only fail again: launchers do not start it again
FAILURE = 1  # where it may go well the next time

EXIT_CODES: dict[type[BaseException], int] = {
    **dict.fromkeys((
        ConfigError, ModelError, MeshError, ClusterError, CorpusError, CheckpointError,
        WarmStartError, TextError, PromptError, MetricsError, PoolError, SettingsError, WandbError,
        RemoteSetupError, ConfinementError, modes.ModeError,
    ), USAGE),
    **dict.fromkeys((SaveError, UnreadableError, RunnerError, HostError), FAILURE),
}  # fmt: skip
USER_ERRORS = tuple(EXIT_CODES)  # said in one line


def main(argv: list[str]) -> int:
    if len(argv) > 1:
        raise app.UsageError(
            f"unexpected arguments {argv[1:]}; settings are --config.KEY=VALUE", USAGE
        )
    if WORKDIR.value is None and MODE.value != EXPLAIN:
        raise app.UsageError("--workdir is missing: the folder that the run writes to", USAGE)
    logging.set_verbosity(logging.WARNING)  # the checkpoint library narrates at INFO
    try:
        if "://" in (WORKDIR.value or ""):  # would be made here, as a folder of that name
            raise ConfigError(
                f"--workdir={WORKDIR.value}: expected a folder; a bucket is mounted as one first"
                " (docs/tpu.md)"
            )
        config = read_config()
        validate(config)
        if MODE.value == EXPLAIN:
            path = config_flags.get_config_filename(flags.FLAGS["config"])
            return modes.run_explain(config, path)
        with joined(config.distributed, exit_code) as hosts, _one_voice(hosts):
            options = modes.Options(
                ENV.value, COUNT.value, SPLIT.value or "dev", PROMPT.value, hosts
            )
            return modes.MODES[MODE.value](config, pathlib.Path(WORKDIR.value), options)
    except USER_ERRORS as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return exit_code(error)


def exit_code(error: BaseException) -> int:
    """That of its nearest class in the table."""
    return next((EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES), FAILURE)


def _one_voice(hosts: Hosts) -> contextlib.AbstractContextManager:
    """Only the leader says on stdout how it goes; every process's errors are on stderr."""
    if hosts.leader:
        return contextlib.nullcontext()
    return contextlib.redirect_stdout(io.StringIO())


def read_config():
    """The recipe with its overrides; a file that is missing or broken is a ConfigError."""
    try:
        CONFIG.value.keys()  # a recipe that failed to load says so at its first use only
        return CONFIG.value
    except OSError as error:
        raise ConfigError(f"--config: {error}") from error


def run(main_: Callable[[list[str]], int]) -> None:
    """`app.run`, with one clear line instead of a traceback for a bad --config."""
    flags.mark_flag_as_required("config")
    app.run(main_, flags_parser=_parse)


def _parse(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        print(f"ConfigError: {_of_flag(error)}", file=sys.stderr)
        sys.exit(USAGE)
    except (AttributeError, KeyError) as error:
        while isinstance(error.args[0], KeyError):
            error = error.args[0]
        said = " ".join(str(error.args[0]).split())  # the text of a KeyError is quoted once more
        print(
            f"ConfigError: unknown setting {said}: expected a key of configs/base.py",
            file=sys.stderr,
        )
        sys.exit(USAGE)
    except (FileNotFoundError, TypeError, ValueError) as error:
        print(f"ConfigError: {error}", file=sys.stderr)
        sys.exit(USAGE)


def _of_flag(error: flags.Error) -> str:
    """Which flag is wrong and why, without the traceback that a recipe's own error comes with."""
    flag, its_recipe, _ = str(error).removeprefix("flag ").partition(": Error whilst parsing")
    if not its_recipe:
        return flag
    why: BaseException = error
    while why.__context__ is not None:
        why = why.__context__
    file, _, size = flag.removeprefix("--config=").partition(":")
    if size and isinstance(why, TypeError) and "get_config()" in str(why):
        return f"{flag}: {file} has no sizes"
    return f"{flag}: {why}"


if __name__ == "__main__":
    run(main)
