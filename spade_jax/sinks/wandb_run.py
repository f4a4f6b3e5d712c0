"""Metrics as a run of Weights & Biases."""

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rich
from ml_collections import ConfigDict
from rich.markup import escape

from spade_jax import extras, settings
from spade_jax.metrics import read_metrics

START_S = 20.0  # most seconds that a start waits for the server; then the run is kept offline
LOGIN_S = 60.0  # most seconds for an answer to a question about the account, on a terminal
FINISH_S = 30.0  # most seconds that the end waits for what is not sent yet


class WandbError(RuntimeError):
    """Weights & Biases is asked for but not set up: no package, no account, a bad name."""


class WandbRun:
    """A metrics sink that goes on with the run of the workdir, whose id is in WORKDIR/wandb/run_id.

    Steps that the run has already are not sent again. Whatever fails after the set-up is said once,
    and the training goes on without it.
    """

    def __init__(self, config: ConfigDict, workdir: Path):
        """Raises WandbError."""
        self._config, self._workdir = config, workdir
        self._wandb = extras.require("wandb", "wandb", WandbError)
        self._next = max((row["step"] + 1 for row in read_metrics(workdir)), default=0)
        self._run = self._start(config.wandb.mode)
        if self._run is not None and self._run.resumed:
            self._next = self._run.step  # what a killed process had not sent yet is sent now

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        if self._run is None or step < self._next:
            return
        self._next = step + 1
        try:
            self._run.log(dict(numbers), step=step, commit=True)
        except Exception as error:
            self._give_up(error)

    def rewind(self) -> None:
        """The steps that follow are the same again."""

    def close(self) -> None:
        """Waits at most `FINISH_S` seconds for what is not sent yet; it stays on disk."""
        run, self._run = self._run, None
        if run is not None:
            try:
                run.finish()
            except Exception as error:
                self._give_up(error)

    def _start(self, mode: str) -> Any:
        """The run, or None if not even an offline one can be started."""
        errors = self._wandb.errors
        try:
            return self._init(mode)
        except (errors.UsageError, errors.AuthenticationError) as error:
            raise WandbError(
                f"wandb.mode={mode!r}, wandb.project={self._config.wandb.project!r}: "
                f"{_line(error)}; expected an account (`wandb login`), wandb.mode='offline' or "
                "wandb.project=''"
            ) from error
        except Exception as error:
            if mode == "offline":
                return self._give_up(error)
            rich.print(
                f"[yellow]Weights & Biases can not be reached[/] ({escape(_line(error))}): the run "
                f"is kept in {escape(str(self._workdir / 'wandb'))}; send it with `wandb sync`"
            )
            self._wandb.teardown()  # else the id counts as in use
            return self._start("offline")

    def _init(self, mode: str) -> Any:
        section = self._config.wandb
        return self._wandb.init(
            project=section.project,
            entity=section.entity or None,
            name=section.name or self._workdir.absolute().name,
            tags=list(section.tags),
            config=settings.plain(self._config),
            dir=self._workdir,
            id=self._run_id(),
            resume="allow",
            mode=mode,
            reinit="create_new",
            settings=self._wandb.Settings(
                init_timeout=START_S, login_timeout=LOGIN_S, finish_timeout=FINISH_S,
                console="off", silent=True, allow_val_change=True,
            ),
        )  # fmt: skip

    def _run_id(self) -> str:
        """The workdir's name and eight random digits; made once."""
        path = self._workdir / "wandb" / "run_id"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", self._workdir.absolute().name)[:80]
            partial = path.with_suffix(".partial")
            partial.write_text(f"{name}-{secrets.token_hex(4)}")
            partial.rename(path)
        return path.read_text()

    def _give_up(self, error: Exception) -> None:
        self._run = None
        rich.print(f"[yellow]no more metrics for Weights & Biases[/] ({escape(_line(error))})")


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200].rstrip(".")
