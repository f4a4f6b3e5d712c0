"""Modes that change a run: the warm start alone, or all of it."""

import pathlib

import msgspec
import rich
from ml_collections import ConfigDict
from rich.markup import escape

from spade_jax import models, statistics, train, warm_start
from spade_jax.checkpoint import Checkpoints
from spade_jax.closing import closing_report
from spade_jax.interrupt import StopRequest
from spade_jax.metrics import MetricsWriter, NoWriter
from spade_jax.modes.opening import Options, abstract_state, first_state, open_rooms
from spade_jax.modes.scoring import score
from spade_jax.progress import Progress
from spade_jax.rooms import Rooms
from spade_jax.state import RunState

HIGHLIGHTS = {
    "designer/valid_fraction": "valid",
    "designer/in_band_fraction": "in band",
    "designer/regret": "regret",
    "agent/win_rate": "win",
    "agent/win_rate_hint": "win+hint",
    "designer/knob_median": "knob",
}


def run_training(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """Warm start, self-play and the closing table; takes up an interrupted run where it stopped."""
    with StopRequest() as stop, open_rooms(config, workdir, options.hosts) as rooms:
        checkpoints = Checkpoints(workdir / "checkpoints", config.checkpoint.keep)
        try:
            state = _initial_state(rooms, checkpoints, stop)
            if state is not None:
                state = _self_play(rooms, state, checkpoints, stop)
        finally:
            checkpoints.close()
    done = state is not None and state.records.step >= config.steps
    if done and options.hosts.leader:
        closing_report(workdir)
    elif not done:
        rich.print(f"stopped; the same command goes on ({escape(str(workdir))})")
    return 0


def run_warm_start(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """The warm start alone, for runs that share it by `warm_start.path`."""
    with StopRequest() as stop, open_rooms(config, workdir, options.hosts) as rooms:
        _warm_params(rooms, stop)
    return 0


def _initial_state(rooms: Rooms, checkpoints: Checkpoints, stop: StopRequest) -> RunState | None:
    """The newest checkpoint, else a warm-started state; None when the warm start was stopped."""
    if checkpoints.latest() is not None:
        return checkpoints.restore(abstract_state(rooms))
    params = _warm_params(rooms, stop)
    return None if params is None else first_state(rooms, params)


def _warm_params(rooms: Rooms, stop: StopRequest) -> models.Params | None:
    config = rooms.config
    with Progress(config.warm_start.steps, label="warm start") as progress:
        return warm_start.train(
            config, rooms.language, rooms.mesh, rooms.warm,
            lambda step, loss: progress.step(step, {"loss": loss}),
            lambda: rooms.hosts.any(stop.requested()),
        )  # fmt: skip


def _self_play(
    rooms: Rooms, state: RunState, checkpoints: Checkpoints, stop: StopRequest
) -> RunState:
    config, workdir, hosts = rooms.config, rooms.workdir, rooms.hosts
    with (
        MetricsWriter(workdir) if hosts.leader else NoWriter() as writer,
        Progress(config.steps, "self-play", state.records.step, HIGHLIGHTS) as progress,
    ):
        if state.records.step == 0:
            writer.truncate_after(-1)
            writer.write(0, score(rooms, state, progress))
        writer.truncate_after(state.records.step)
        while state.records.step < config.steps:
            state, metrics, designs = train.iteration(rooms, state, progress)
            step = state.records.step
            if hosts.leader:
                with progress.phase("write"):
                    _write_environments(workdir, designs)
            every = config.eval.every
            if step == config.steps or (every and step % every == 0):
                metrics |= score(rooms, state, progress)
            times = progress.times()
            metrics |= times | statistics.rates(metrics, times)
            writer.write(step, metrics)  # before the save: a resume drops rows
            stopping = hosts.any(stop.requested())
            if step == config.steps or step % config.checkpoint.every == 0 or stopping:
                checkpoints.save(state)
            progress.step(step, metrics)
            if stopping:
                break
    return state


def _write_environments(workdir: pathlib.Path, designs) -> None:
    """One `.py` file (the source, or the whole reply when it holds none) and one `.json` each."""
    folder = workdir / "environments"
    folder.mkdir(parents=True, exist_ok=True)
    for design in designs:
        (folder / f"{design.name}.py").write_text(design.source or design.reply)
        record = msgspec.to_builtins(design)
        for key in ("trajectory", "source"):
            del record[key]
        plays = design.plays()
        record["regret"] = max(0.0, plays.gap) if plays else None
        text = msgspec.json.format(msgspec.json.encode(record), indent=1)
        (folder / f"{design.name}.json").write_bytes(text + b"\n")
