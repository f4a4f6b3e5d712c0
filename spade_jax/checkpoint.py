"""Saves and restores a RunState as one atomic orbax checkpoint."""

import contextlib
import dataclasses
import errno
import re
import threading
from collections.abc import Iterator
from typing import Any

import jax
import msgspec
import orbax.checkpoint as ocp
import rich
from etils import epath
from orbax.checkpoint.checkpoint_managers import AnyPreservationPolicy, EveryNSteps, LatestN
from rich.markup import escape

from spade_jax import integrity
from spade_jax.integrity import ArrayInfo
from spade_jax.parallel import Hosts
from spade_jax.state import Records, RunState

MOST_SHOWN = 160  # characters of a library's message
OF_FILES = {None, errno.ENOENT, errno.EISDIR, errno.ENOTDIR}  # errors that tell of damage
OS_ERROR = re.compile(r"os_error_code='(\d+)'")  # in the array library's messages


class CheckpointError(RuntimeError):
    """A checkpoint is missing, does not fit this run, or none can be read."""


class UnreadableError(CheckpointError):
    """There are checkpoints, but none can be read now."""


class SaveError(CheckpointError):
    """A checkpoint could not be written; those before it are as they were."""


class _Damaged(Exception):
    """A checkpoint can not be read, or is not what was saved."""


class Contents(msgspec.Struct):
    """The JSON part of a checkpoint.

    Attributes:
        arrays: of the other part, to compare it with.
        digest: `json_digest` of the rest, None while it is computed.
    """

    records: Records
    arrays: dict[str, ArrayInfo]
    digest: int | None = None

    def to_json(self) -> dict[str, Any]:
        content = msgspec.to_builtins(self)
        content["digest"] = integrity.json_digest(content | {"digest": None})
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Contents":
        """Raises _Damaged if it is not what `to_json` gave."""
        digest = content.get("digest") if isinstance(content, dict) else None
        if digest is None or digest != integrity.json_digest(content | {"digest": None}):
            raise _Damaged("its records are not those that this version saved")
        return msgspec.convert(content, cls)


class Checkpoints:
    """The checkpoints of one run under `folder`: the newest `keep` of them, and for ever those of
    every `milestones_every`-th step (0: none).

    With `read_only` the folder is left as it is, whatever is found: another process may own it.
    The processes of a run, `hosts`, save and restore together.
    """

    def __init__(
        self,
        folder: epath.PathLike,
        keep: int,
        milestones_every: int = 0,
        read_only: bool = False,
        hosts: Hosts | None = None,
    ):
        policies = [LatestN(keep)]
        if milestones_every:
            policies.append(EveryNSteps(milestones_every))
        options = ocp.CheckpointManagerOptions(
            preservation_policy=AnyPreservationPolicy(policies),
            create=not read_only,
            cleanup_tmp_directories=not read_only,  # of a save that was killed
            read_only=read_only,
            save_interval_steps=0 if read_only else 1,
        )
        self._manager = ocp.CheckpointManager(epath.Path(folder).absolute(), options=options)
        self._read_only = read_only
        self._hosts = hosts or Hosts()
        self._starting_save = threading.Lock()

    def latest(self) -> int | None:
        """The step of the newest complete checkpoint, or None."""
        return self._manager.latest_step()

    def save(self, state: RunState) -> None:
        """Saves in the background under `state.records.step`; a step saved before is left alone.

        The arrays are copied to the host before this returns, so the state may go on.

        Raises:
            SaveError: this save or the one before it failed.
        """
        step = state.records.step
        if step in self._manager.all_steps():
            return
        arrays = _arrays(state)
        with self._starting_save, self._failing_as_save_error():
            contents = Contents(state.records, integrity.inventory(arrays))
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    arrays=ocp.args.StandardSave(arrays),
                    contents=ocp.args.JsonSave(contents.to_json()),
                ),
            )

    def check(self) -> None:
        """Raises SaveError if a save in the background has failed; waits for none."""
        if not self._manager.is_saving_in_progress():
            self.wait()

    def wait(self) -> None:
        """Waits until no save is under way. Raises SaveError if one failed."""
        with self._failing_as_save_error():
            self._manager.wait_until_finished()

    def settle(self) -> None:
        """Waits, in any thread, until no save is under way, well or failed."""
        with self._starting_save, contextlib.suppress(SaveError):
            self.wait()

    def close(self) -> None:
        """Waits for saves in the background. Raises SaveError if one failed."""
        try:
            self.wait()
        finally:
            self._manager.close()

    def restore(self, like: RunState) -> RunState:
        """The newest state that can be read, with the shapes and shardings of `like`.

        Damaged checkpoints, in the eyes of one process at least, are named in a printed line and
        passed over; they are renamed STEP.damaged, so that their steps can be saved again, once an
        older one was read.

        Raises:
            CheckpointError: there is none, or the newest that can be read is of a different model
                or recipe.
            UnreadableError: none can be read.
            OSError: reading fails for a reason that says nothing about the files.
            SaveError: a save in the background has failed.
        """
        self.wait()
        damaged: dict[int, str] = {}
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                state = self._read(step, like)
            except _Damaged as error:
                damaged[step] = str(error)
                continue
            for broken, reason in damaged.items():
                rich.print(
                    f"[yellow]checkpoint {broken} in {escape(str(self._manager.directory))} is "
                    f"damaged[/] ({escape(reason)}): going on from checkpoint {step}"
                )
            self._set_aside(damaged)
            return state
        folder = self._manager.directory
        if not damaged:
            raise CheckpointError(f"no checkpoint under {folder}")
        reasons = "; ".join(f"{step}: {reason}" for step, reason in damaged.items())
        raise UnreadableError(
            f"no checkpoint under {folder} can be read ({reasons}); without that folder the run "
            "starts anew"
        )

    def _read(self, step: int, like: RunState) -> RunState:
        # The manager's own `restore` ends at a barrier, which a process that fails never reaches.
        folder = self._manager.directory / str(step)
        with (
            self._failing_together(f"contents of checkpoint {step}"),
            contextlib.closing(ocp.JsonCheckpointHandler()) as handler,
        ):
            contents = Contents.from_json(handler.restore(folder / "contents"))
        arrays = _arrays(like)
        self._check_fits(step, contents.arrays, integrity.layout(arrays))
        target = jax.tree.map(ocp.utils.to_shape_dtype_struct, arrays)
        with (
            self._failing_together(f"arrays of checkpoint {step}"),
            contextlib.closing(ocp.StandardCheckpointHandler()) as handler,
        ):
            restored = handler.restore(folder / "arrays", args=ocp.args.StandardRestore(target))
        for name, found in integrity.inventory(restored).items():
            if found != contents.arrays[name]:
                raise _Damaged(f"{name} is not what was saved")
        return dataclasses.replace(like, records=contents.records, **restored)

    @contextlib.contextmanager
    def _failing_together(self, what: str) -> Iterator[None]:
        """Damage that one process finds is raised as _Damaged in all: each would wait for the
        others in the collective operations that follow."""
        reason = None
        try:
            with _failing_as_damaged():
                yield
        except _Damaged as error:
            reason = str(error)
        for index, found in enumerate(self._hosts.all(what, reason)):
            if found is not None:
                raise _Damaged(found if self._hosts.count == 1 else f"process {index}: {found}")

    def _check_fits(self, step: int, there: dict[str, ArrayInfo], here: dict[str, ArrayInfo]):
        """Raises CheckpointError for other arrays than the config asks for."""
        for name in sorted(there.keys() | here.keys()):
            old, new = (_shown(part.get(name)) for part in (there, here))
            if old != new:
                raise CheckpointError(
                    f"checkpoint {step} in {self._manager.directory} does not fit this config: "
                    f"{name} is {old} there, expected {new}"
                )

    def _set_aside(self, steps) -> None:
        if self._read_only or not steps:
            return
        if jax.process_index() == 0:
            for step in steps:
                folder = self._manager.directory / str(step)
                aside = folder.with_name(f"{step}.damaged")
                if aside.exists():
                    aside.rmtree()
                folder.rename(aside)
        ocp.multihost.sync_global_processes("damaged checkpoints set aside")
        self._manager.reload()

    @contextlib.contextmanager
    def _failing_as_save_error(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._manager.reload()
            raise SaveError(
                f"a checkpoint under {self._manager.directory} could not be written: "
                f"{_reason(error)}; the newest complete one is {self.latest()}"
            ) from error


def _arrays(state: RunState) -> dict[str, Any]:
    return {"learner": state.learner, "reference": state.reference}


def _shown(info: ArrayInfo | None) -> str:
    return "absent" if info is None else f"{info.dtype}{list(info.shape)}"


@contextlib.contextmanager
def _failing_as_damaged() -> Iterator[None]:
    """What is wrong with the device, the memory, the permissions or the way to the files says
    nothing about the files."""
    try:
        yield
    except (_Damaged, MemoryError, PermissionError, RuntimeError):
        raise
    except Exception as error:
        if _errno(error) not in OF_FILES:
            raise
        raise _Damaged(_reason(error)) from error


def _errno(error: BaseException) -> int | None:
    """The system's error number, which the array library tells in its text alone."""
    error = _unwrapped(error)
    if isinstance(error, OSError):
        return error.errno
    told = OS_ERROR.search(str(error))
    return int(told[1]) if told else None


def _unwrapped(error: BaseException) -> BaseException:
    """Of an error that only wraps another one, the other."""
    if type(error) is Exception and error.__cause__ is not None:
        return _unwrapped(error.__cause__)
    return error


def _reason(error: BaseException) -> str:
    """One line."""
    error = _unwrapped(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:MOST_SHOWN]}"
