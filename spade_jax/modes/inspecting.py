"""Modes that look at a run, or at a public model: eval, generate, play."""

import contextlib
import pathlib
from collections.abc import Iterator

import msgspec
from ml_collections import ConfigDict

from spade_jax import rooms as rooms_lib
from spade_jax import seeding
from spade_jax.curricula import FolderError, GradedError, read_file
from spade_jax.cycle import make_designs
from spade_jax.envs import Player, PlayRequest, Program
from spade_jax.grounding import cut_words
from spade_jax.language import Language
from spade_jax.modes.opening import (
    ModeError,
    Options,
    has_run,
    newest_state,
    open_public_model,
    open_rooms,
    require_model,
)
from spade_jax.modes.scoring import score
from spade_jax.modes.transcript import readable
from spade_jax.parallel import Hosts
from spade_jax.progress import Progress
from spade_jax.prompts import Prompts
from spade_jax.rollout import PlaySettings
from spade_jax.rooms import Rooms
from spade_jax.sampler import ContextError, Engine, Request
from spade_jax.text import Message


def run_eval(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """Prints the held-out scores of the newest checkpoint and writes them to eval_SPLIT.json.

    Raises:
        ModeError: the recipe scores nothing.
    """
    if not config.eval.episodes and not config.eval.greedy:
        raise ModeError("--mode=eval: expected eval.episodes or eval.greedy above 0")
    require_model(config, workdir)
    hosts = options.hosts
    with open_rooms(config, workdir, hosts) as rooms, Progress(1, label="eval") as progress:
        state = newest_state(rooms)
        scores = score(rooms, state, progress, options.split)
    if hosts.leader:
        (workdir / f"eval_{options.split}.json").write_bytes(msgspec.json.encode(scores))
    for name, value in scores.items():
        print(f"{name:50} {value:.3f}")
    return 0


def run_generate(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """Prints `options.count` new designs with their verdicts, or the answer to a prompt."""
    require_model(config, workdir)
    if options.prompt is not None:
        _require_one_process(options.hosts, "--mode=generate --prompt")
        with _speaker(config, workdir) as (language, engine):
            return _answer(config, language, engine, options.prompt)
    hosts = options.hosts
    with open_rooms(config, workdir, hosts) as rooms, Progress(1, label="generate") as progress:
        with config.unlocked():
            config.curriculum.num_envs, config.curriculum.max_attempts = options.count, 1
        state = newest_state(rooms)
        rooms.sample_with(state.learner, "designer")
        designs = make_designs(rooms, state, progress, "generate", 0)
    for design in designs:
        verdict = "accepted" if design.accepted else f"{design.stage}: {design.reason}"
        print(f"# {design.skill}, document {design.document_id}: {verdict}\n{design.reply}\n")
    accepted = sum(design.accepted for design in designs)
    print(f"# {accepted} of {len(designs)} accepted")
    return 0


def run_play(config: ConfigDict, workdir: pathlib.Path, options: Options) -> int:
    """Prints the model's play of one environment file, without and with the hint beside it.

    The hint is the text of `FILE` with the suffix `.hint`, or the `hint` of `FILE` with `.json`.
    """
    if options.env is None or not pathlib.Path(options.env).is_file():
        raise ModeError(f"--env={options.env}: expected an environment's Python file")
    _require_one_process(options.hosts, "--mode=play")
    require_model(config, workdir)
    path = pathlib.Path(options.env)
    try:
        environment = read_file(path)
    except (FolderError, GradedError) as error:
        raise ModeError(f"--env={path}: {error}") from error
    hint = cut_words(environment.hint, config.hints.max_words)
    arms = [("without hint", None)] + ([("with hint", hint)] if hint else [])
    seed = seeding.derive(config.seed, "play", path.name)
    plays = tuple(PlayRequest(seed, seed, text) for _, text in arms)
    agent = config.agent
    settings = PlaySettings(
        agent.temperature, agent.max_turns, agent.max_new_tokens, agent.top_k, agent.top_p
    )
    with _player(config, workdir) as player:
        (episodes,) = player.play([Program(environment.source(), False, plays)], settings)
    for (label, _), episode in zip(arms, episodes, strict=True):
        print(f"--- {label}: {episode.outcome}, return {episode.final_return:g}")
        if episode.error is not None:
            print(episode.error)
        print(readable(episode))
    return 0


@contextlib.contextmanager
def _player(config: ConfigDict, workdir: pathlib.Path) -> Iterator[Player]:
    """Who plays: the newest checkpoint, or else the public model."""
    if has_run(workdir):
        with _trained(config, workdir, "agent") as rooms:
            yield rooms.player
        return
    pool = rooms_lib.open_pool(config)
    try:
        language, engine = open_public_model(config, "agent")
        yield Player(
            engine, language.chats["agent"], pool, Prompts(config.prompts), Hosts(),
            config.agent.hint_style,
        )  # fmt: skip
    finally:
        pool.shut_down()


@contextlib.contextmanager
def _speaker(config: ConfigDict, workdir: pathlib.Path) -> Iterator[tuple[Language, Engine]]:
    """Who answers: the newest checkpoint, or else the public model, which needs no sandbox."""
    if has_run(workdir):
        with _trained(config, workdir, "designer") as rooms:
            yield rooms.language, rooms.engines["designer"]
    else:
        yield open_public_model(config, "designer")


@contextlib.contextmanager
def _trained(config: ConfigDict, workdir: pathlib.Path, role: str) -> Iterator[Rooms]:
    """The run's parts, with the newest parameters in the engine of a role."""
    with open_rooms(config, workdir, Hosts()) as rooms:
        rooms.sample_with(newest_state(rooms).learner, role)
        yield rooms


def _require_one_process(hosts: Hosts, mode: str) -> None:
    if hosts.count > 1:
        raise ModeError(f"{mode} is for one process; expected distributed.enabled=False")


def _answer(config: ConfigDict, language: Language, engine: Engine, prompt: str) -> int:
    """Prints the greedy answer, as it comes, up to the length of a design."""
    chat = language.chats["designer"]
    tokens, budget = chat.open([Message("user", prompt)]), config.designer.max_new_tokens
    try:
        handle = engine.submit(Request(tokens, budget, config.seed, 0.0, chat.stop_ids))
    except ContextError as error:
        raise ModeError(f"--prompt: {error} (sampler.designer.max_len)") from error
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
    limit = "designer.max_new_tokens" if len(sampled) == budget else "sampler.designer.max_len"
    print("" if ended else f"\n[cut at {limit}]")
    return 0
