"""Saves and restores a RunState as one atomic orbax checkpoint."""

import dataclasses

import jax
import msgspec
import orbax.checkpoint as ocp
from etils import epath

from spade_jax.state import Records, RunState


class CheckpointError(RuntimeError):
    """A checkpoint is missing or does not fit this run."""


class Checkpoints:
    """The checkpoints of one run under `folder`, the newest `keep` of them."""

    def __init__(self, folder: epath.PathLike, keep: int):
        self._manager = ocp.CheckpointManager(
            epath.Path(folder).absolute(),
            options=ocp.CheckpointManagerOptions(max_to_keep=keep, create=True),
        )

    def latest(self) -> int | None:
        """The step of the newest complete checkpoint, or None."""
        return self._manager.latest_step()

    def save(self, state: RunState) -> None:
        """Saves in the background under `state.records.step`; a step saved before is left alone.

        The arrays are copied to the host before this returns, so the state may go on.
        """
        step = state.records.step
        if step in self._manager.all_steps():
            return
        arrays = {"learner": state.learner, "reference": state.reference}
        self._manager.save(
            step,
            args=ocp.args.Composite(
                arrays=ocp.args.StandardSave(arrays),
                records=ocp.args.JsonSave(msgspec.to_builtins(state.records)),
            ),
        )

    def restore(self, like: RunState, step: int | None = None) -> RunState:
        """The state at `step` (default: the newest), with the shapes and shardings of `like`.

        Raises:
            CheckpointError: there is none, or it was written by a different model or recipe.
        """
        step = self.latest() if step is None else step
        if step is None:
            raise CheckpointError(f"no checkpoint under {self._manager.directory}")
        arrays = {"learner": like.learner, "reference": like.reference}
        target = jax.tree.map(ocp.utils.to_shape_dtype_struct, arrays)
        try:
            restored = self._manager.restore(
                step,
                args=ocp.args.Composite(
                    arrays=ocp.args.StandardRestore(target), records=ocp.args.JsonRestore()
                ),
            )
        except (ValueError, KeyError) as error:
            raise CheckpointError(
                f"checkpoint {step} in {self._manager.directory} does not fit this config: {error}"
            ) from error
        records = msgspec.convert(restored["records"], Records)
        return dataclasses.replace(like, records=records, **restored["arrays"])

    def close(self) -> None:
        """Waits for saves in the background."""
        self._manager.wait_until_finished()
        self._manager.close()
