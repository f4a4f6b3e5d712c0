"""Modes that change a run: the warm start alone, or all of it."""

import contextlib
import pathlib

import msgspec
import rich
from ml_collections import ConfigDict
from rich.markup import escape

from spade_jax import models, statistics, train, warm_start
from spade_jax.checkpoint import Checkpoints
from spade_jax.closing import closing_report
from spade_jax.cycle import open_source, speaking_phases
from spade_jax.interrupt import PREEMPTED, StopRequest
from spade_jax.metrics import MetricsWriter, NoWriter, Sink
from spade_jax.modes.opening import Options, abstract_state, first_state, open_rooms
from spade_jax.modes.scoring import score
from spade_jax.parallel import Hosts
from spade_jax.progress import Progress
from spade_jax.rooms import Rooms
from spade_jax.sinks import TensorBoard, WandbRun
from spade_jax.state import RunState

HIGHLIGHTS = {
    "designer/valid_fraction": "valid",
    "designer/in_band_fraction": "in band",
    "designer/regret": "regret",
    "agent/win_rate": "win",
    "agent/win_rate_hint": "win+hint",
    "designer/knob_median": "knob",
    "adaptive/level": "level",
}


def run_training(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """Warm start, self-play and the closing table; takes up an interrupted run where it stopped."""
    hosts = options.hosts
    with (
        _stop_request(config, hosts) as stop,
        open_rooms(config, workdir, hosts) as rooms,
        _open_writer(rooms) as writer,
        contextlib.closing(_open_checkpoints(rooms)) as checkpoints,
    ):
        stop.settle_first(checkpoints.settle)
        state = _initial_state(rooms, checkpoints, stop)
        if state is not None:
            state = _self_play(rooms, state, writer, checkpoints, stop)
    if state is None or state.records.step < config.steps:
        return _stopped(workdir, stop)
    if hosts.leader:
        closing_report(workdir)
    return 0


def run_warm_start(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """The warm start alone, for runs that share it by `warm_start.path`."""
    with (
        _stop_request(config, options.hosts) as stop,
        open_rooms(config, workdir, options.hosts) as rooms,
    ):
        params = _warm_params(rooms, stop)
    return 0 if params is not None else _stopped(workdir, stop)


def _stop_request(config: ConfigDict, hosts: Hosts) -> StopRequest:
    """All processes stop together, also where one can not wait for the end of a step."""
    return StopRequest(
        config.checkpoint.grace_s, hosts.any,
        before_drop=lambda: hosts.desert("was preempted", PREEMPTED),
    )  # fmt: skip


def _stopped(workdir: pathlib.Path, stop: StopRequest) -> int:
    rich.print(f"stopped; the same command goes on ({escape(str(workdir))})")
    return stop.exit_code()


def _open_checkpoints(rooms: Rooms) -> Checkpoints:
    section = rooms.config.checkpoint
    return Checkpoints(
        rooms.workdir / "checkpoints", section.keep, section.milestones_every, hosts=rooms.hosts
    )


def _open_writer(rooms: Rooms) -> MetricsWriter | NoWriter:
    config, workdir = rooms.config, rooms.workdir
    if not rooms.hosts.leader:
        return NoWriter()
    sinks: list[Sink] = [TensorBoard(workdir / "tensorboard")]
    if config.wandb.project:
        sinks.append(WandbRun(config, workdir))
    return MetricsWriter(workdir, sinks)


def _initial_state(rooms: Rooms, checkpoints: Checkpoints, stop: StopRequest) -> RunState | None:
    """The newest checkpoint, else a warm-started state; None when the warm start was stopped."""
    if checkpoints.latest() is not None:
        return checkpoints.restore(abstract_state(rooms))
    records = open_source(rooms.config).begin(rooms)
    params = _warm_params(rooms, stop)
    return None if params is None else first_state(rooms, params, records)


def _warm_params(rooms: Rooms, stop: StopRequest) -> models.Params | None:
    config = rooms.config
    with Progress(config.warm_start.steps, label="warm start") as progress:
        return warm_start.train(
            config, rooms.language, rooms.mesh, rooms.warm,
            lambda step, loss: progress.step(step, {"loss": loss}), stop, rooms.hosts,
        )  # fmt: skip


def _self_play(
    rooms: Rooms,
    state: RunState,
    writer: MetricsWriter,
    checkpoints: Checkpoints,
    stop: StopRequest,
) -> RunState:
    config, workdir, hosts = rooms.config, rooms.workdir, rooms.hosts
    with Progress(config.steps, "self-play", state.records.step, HIGHLIGHTS) as progress:
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
            metrics |= times | statistics.rates(metrics, times, speaking_phases(config))
            writer.write(step, metrics)  # before the save: a resume drops rows
            stopping = stop.requested()
            if stopping or _is_saved(config, step):
                checkpoints.save(state)
            checkpoints.check()
            progress.step(step, metrics)
            if stopping:
                break
    return state


def _is_saved(config: ConfigDict, step: int) -> bool:
    section = config.checkpoint
    milestone = section.milestones_every and step % section.milestones_every == 0
    return step == config.steps or step % section.every == 0 or bool(milestone)


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
