"""What `spade_jax.main --mode` runs: train, eval, generate, play."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator

import jax
import msgspec
import rich
from ml_collections import ConfigDict
from rich.markup import escape

from spade_jax import models, parallel, seeding, statistics, train, warm_start
from spade_jax import rooms as rooms_lib
from spade_jax.checkpoint import CheckpointError, Checkpoints
from spade_jax.closing import closing_report
from spade_jax.envs import Player, PlayRequest, PlaySettings, Program
from spade_jax.eval import evaluate, held_out
from spade_jax.interrupt import StopRequest
from spade_jax.metrics import MetricsWriter
from spade_jax.pretrained import Pretrained, open_pretrained
from spade_jax.progress import Progress
from spade_jax.prompts import Prompts
from spade_jax.rooms import Rooms
from spade_jax.sampler import Engine, EngineSettings, Request
from spade_jax.settings import tie_to_config
from spade_jax.state import Records, RunState
from spade_jax.text import Message

HIGHLIGHTS = {
    "designer/valid_fraction": "valid",
    "designer/in_band_fraction": "in band",
    "designer/regret": "regret",
    "agent/win_rate": "win",
    "agent/win_rate_hint": "win+hint",
    "designer/knob_median": "knob",
}


class ModeError(ValueError):
    """A mode needs something that was not given."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags besides config and workdir: `env` for play, `count` and `prompt` for generate, `split`
    for eval."""

    env: str | None = None
    count: int = 4
    split: str = "dev"
    prompt: str | None = None


def run_training(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """Warm start, self-play and the closing table; takes up an interrupted run where it stopped."""
    del options
    _refuse_public_model(config)
    with StopRequest() as stop, open_rooms(config, workdir) as rooms:
        checkpoints = Checkpoints(workdir / "checkpoints", config.checkpoint.keep)
        try:
            state = _initial_state(rooms, checkpoints, stop)
            if state is not None:
                state = _self_play(rooms, state, checkpoints, stop)
        finally:
            checkpoints.close()
    done = state is not None and state.records.step >= config.steps
    if done:
        closing_report(workdir)
    else:
        rich.print(f"stopped; the same command goes on ({escape(str(workdir))})")
    return 0


def run_warm_start(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """The warm start alone, for runs that share it by `warm_start.path`."""
    del options
    _refuse_public_model(config)
    with StopRequest() as stop, open_rooms(config, workdir) as rooms:
        _warm_params(rooms, stop)
    return 0


def _initial_state(rooms: Rooms, checkpoints: Checkpoints, stop: StopRequest) -> RunState | None:
    """The newest checkpoint, else a warm-started state; None when the warm start was stopped."""
    if checkpoints.latest() is not None:
        return checkpoints.restore(abstract_state(rooms))
    params = _warm_params(rooms, stop)
    if params is None:
        return None
    learner = rooms.learner.adopt(params)
    return RunState(learner, learner.params if rooms.config.learner.kl else None, Records())


def _warm_params(rooms: Rooms, stop: StopRequest) -> models.Params | None:
    config = rooms.config
    with Progress(config.warm_start.steps, label="warm start") as progress:
        return warm_start.train(
            config, rooms.model, rooms.mesh, rooms.warm, rooms.prompts,
            lambda step, loss: progress.step(step, {"loss": loss}), stop.requested,
        )  # fmt: skip


def abstract_state(rooms: Rooms) -> RunState:
    """Shapes and shardings of the run's state, for a restore."""
    shapes = jax.eval_shape(rooms.learner.init, jax.random.key(0))
    like = jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes, rooms.learner.shardings,
    )  # fmt: skip
    return RunState(like, like.params if rooms.config.learner.kl else None, Records())


def _self_play(
    rooms: Rooms, state: RunState, checkpoints: Checkpoints, stop: StopRequest
) -> RunState:
    config, workdir = rooms.config, rooms.workdir
    with (
        MetricsWriter(workdir) as writer,
        Progress(config.steps, "self-play", state.records.step, HIGHLIGHTS) as progress,
    ):
        if state.records.step == 0:
            writer.truncate_after(-1)
            writer.write(0, _score(rooms, state, progress))
        writer.truncate_after(state.records.step)
        while state.records.step < config.steps:
            state, metrics, designs = train.iteration(rooms, state, progress)
            step = state.records.step
            with progress.phase("write"):
                _write_environments(workdir, designs)
            every = config.eval.every
            if step == config.steps or (every and step % every == 0):
                metrics |= _score(rooms, state, progress)
            times = progress.times()
            metrics |= times | statistics.rates(metrics, times)
            writer.write(step, metrics)  # before the save: a resume drops rows
            stopping = stop.requested()
            if step == config.steps or step % config.checkpoint.every == 0 or stopping:
                checkpoints.save(state)
            progress.step(step, metrics)
            if stopping:
                break
    return state


def _score(
    rooms: Rooms, state: RunState, progress: Progress, split: str = "dev"
) -> dict[str, float]:
    """Held-out scores named `eval/SPLIT/MODE/GROUP`, at temperature 1 ("sampled") and "greedy".

    Training only ever scores itself on "dev".
    """
    config = rooms.config
    rooms.engines["agent"].load(state.learner.params, int(state.learner.version))
    environments, scores = held_out(split), {}
    modes = (("sampled", 1.0, config.eval.episodes), ("greedy", 0.0, config.eval.greedy))
    for mode, temperature, episodes in modes:
        settings = PlaySettings(temperature, config.eval.max_turns, config.agent.max_new_tokens)
        with progress.phase("eval"):
            found = evaluate(
                rooms.player, environments, episodes, settings,
                seeding.derive(config.seed, "eval", split, mode),
            )  # fmt: skip
        prefix = f"eval/{split}/{mode}"
        scores |= {f"{prefix}/{group}": value for group, value in found.items()}
    return scores


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


class open_rooms:
    """`with open_rooms(config, workdir) as rooms`: builds the parts and ends their processes."""

    def __init__(self, config: ConfigDict, workdir: pathlib.Path):
        self._config, self._workdir = config, workdir

    def __enter__(self) -> Rooms:
        self._workdir.mkdir(parents=True, exist_ok=True)
        tie_to_config(self._config, self._workdir)
        self._pool = rooms_lib.open_pool(self._config)
        try:
            _report_layers(self._pool.layers(), self._workdir)
            return rooms_lib.build(self._config, self._workdir, self._pool)
        except BaseException:
            self._pool.shut_down()
            raise

    def __exit__(self, *_) -> None:
        self._pool.shut_down()


def _report_layers(layers: dict[str, str], workdir: pathlib.Path) -> None:
    """Keeps the layers of confinement with the run, and names the ones that this host lacks."""
    (workdir / "sandbox.json").write_bytes(msgspec.json.encode(layers))
    for name, reason in layers.items():
        if reason:
            rich.print(f"[yellow]sandbox layer {name} is missing[/]: {escape(reason)}")


def _trained(rooms: Rooms) -> RunState:
    """The newest checkpoint of the workdir.

    Raises:
        CheckpointError: the run has none.
    """
    checkpoints = Checkpoints(rooms.workdir / "checkpoints", rooms.config.checkpoint.keep)
    try:
        return checkpoints.restore(abstract_state(rooms))
    finally:
        checkpoints.close()


def run_eval(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """Prints the held-out scores of the newest checkpoint and writes them to eval_SPLIT.json."""
    _require_run(workdir)
    with open_rooms(config, workdir) as rooms, Progress(1, label="eval") as progress:
        state = _trained(rooms)
        scores = _score(rooms, state, progress, options.split)
    (workdir / f"eval_{options.split}.json").write_bytes(msgspec.json.encode(scores))
    for name, value in scores.items():
        print(f"{name:50} {value:.3f}")
    return 0


def run_generate(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """Prints `options.count` new designs with their verdicts, or the answer to a prompt."""
    if options.prompt is not None:
        return _answer(config, options.prompt)
    _require_run(workdir)
    with open_rooms(config, workdir) as rooms, Progress(1, label="generate") as progress:
        with config.unlocked():
            config.curriculum.num_envs, config.curriculum.max_attempts = options.count, 1
        state = _trained(rooms)
        rooms.engines["designer"].load(state.learner.params, int(state.learner.version))
        designs = train.make_designs(rooms, state, progress, "generate", 0)
    for design in designs:
        verdict = "accepted" if design.accepted else f"{design.stage}: {design.reason}"
        print(f"# {design.skill}, document {design.document_id}: {verdict}\n{design.reply}\n")
    return 0


def run_play(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """Prints the model's play of one environment file, without and with the hint beside it.

    The hint is the text of `FILE` with the suffix `.hint`, or the `hint` of `FILE` with `.json`.
    """
    if options.env is None or not pathlib.Path(options.env).is_file():
        raise ModeError(f"--env={options.env}: expected an environment's Python file")
    path = pathlib.Path(options.env)
    hint = _hint_beside(path)
    arms = [("without hint", None)] + ([("with hint", hint)] if hint else [])
    seed = seeding.derive(config.seed, "play", path.name)
    plays = tuple(PlayRequest(seed, seed, text) for _, text in arms)
    with _player(config, workdir) as (player, settings):
        (episodes,) = player.play([Program(path.read_text(), False, plays)], settings)
    for (label, _), episode in zip(arms, episodes, strict=True):
        print(f"--- {label}: {episode.outcome}, return {episode.final_return:g}")
        if episode.error is not None:
            print(episode.error)
        for message in episode.transcript:
            print(f"{message.role}: {message.content}")
    return 0


@contextlib.contextmanager
def _player(
    config: ConfigDict, workdir: pathlib.Path
) -> Iterator[tuple[Player, PlaySettings]]:
    """Who plays, and how: the public model that the config names, or the newest checkpoint."""
    if not config.model.checkpoint:
        _require_run(workdir)
        with open_rooms(config, workdir) as rooms:
            state = _trained(rooms)
            rooms.engines["agent"].load(state.learner.params, int(state.learner.version))
            yield rooms.player, rooms.play_settings
        return
    pool = rooms_lib.open_pool(config)
    try:
        language, engine = _public_model(config)
        agent = config.agent
        yield (
            Player(engine, language.chat, pool, Prompts(config.prompts)),
            PlaySettings(agent.temperature, agent.max_turns, agent.max_new_tokens),
        )
    finally:
        pool.shut_down()


def _public_model(config: ConfigDict) -> tuple[Pretrained, Engine]:
    """Raises ModeError when the config names none, ConfigError when its slots do not fit."""
    if not config.model.checkpoint:
        raise ModeError("model.checkpoint is empty: expected a public model, as in"
                        " configs/smollm2_135m.py")  # fmt: skip
    mesh = parallel.make_mesh(config.mesh)
    slots = {"sampler.agent.num_slots": config.sampler.agent.num_slots}
    rooms_lib.check_divides(mesh, slots)
    language = open_pretrained(config, mesh)
    engine = Engine(language.model, mesh, EngineSettings(**config.sampler.agent))
    engine.load(language.params, 0)
    return language, engine


def _answer(config: ConfigDict, prompt: str) -> int:
    """Prints what the public model answers, as it comes."""
    language, engine = _public_model(config)
    chat, agent = language.chat, config.agent
    tokens = chat.open([Message("user", prompt)])
    handle = engine.submit(
        Request(tokens, agent.max_new_tokens, config.seed, agent.temperature, chat.stop_ids)
    )
    shown, turns = "", []
    while not turns:
        turns = engine.advance()
        sampled = list(turns[0].tokens if turns else handle.tokens)
        ended = bool(turns) and turns[0].stopped
        text = chat.decode(sampled[:-1] if ended else sampled)
        if not turns:
            text = text.rstrip("\ufffd")  # the rest of a character is still to come
        print(text[len(shown) :], end="", flush=True)
        shown = text
    print("" if turns[0].stopped else "\n[cut at agent.max_new_tokens]")
    return 0


def _hint_beside(path: pathlib.Path) -> str | None:
    if (text := path.with_suffix(".hint")).is_file():
        return text.read_text().strip()
    if (record := path.with_suffix(".json")).is_file():
        return msgspec.json.decode(record.read_bytes()).get("hint") or None
    return None


def _refuse_public_model(config: ConfigDict) -> None:
    if config.model.checkpoint:
        raise ModeError(
            "self-play starts from a new model only so far: model.checkpoint is for --mode=play and"
            " for --mode=generate with --prompt"
        )


def _require_run(workdir: pathlib.Path) -> None:
    if not (workdir / "checkpoints").is_dir():
        raise CheckpointError(f"{workdir} holds no checkpoints; train first (--mode=train)")


MODES: dict[str, Callable[[ConfigDict, pathlib.Path, Options], int]] = {
    "train": run_training,
    "warm_start": run_warm_start,
    "eval": run_eval,
    "generate": run_generate,
    "play": run_play,
}
