"""Opens what a mode works with: the parts of a run, its newest state, a public model's engine."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

import msgspec
import rich
from ml_collections import ConfigDict
from rich.markup import escape

from spade_jax import parallel, settings
from spade_jax import rooms as rooms_lib
from spade_jax.checkpoint import CheckpointError, Checkpoints
from spade_jax.language import Language
from spade_jax.models import Params
from spade_jax.parallel import HostError, Hosts
from spade_jax.pretrained import open_pretrained
from spade_jax.remote import open_remote
from spade_jax.rooms import Rooms
from spade_jax.sampler import Engine
from spade_jax.state import Records, RunState


class ModeError(ValueError):
    """A mode needs something that was not given."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What else a mode is given: `env` for play, `count` and `prompt` for generate, `split` for
    eval, and the processes that run it."""

    env: str | None = None
    count: int = 4
    split: str = "dev"
    prompt: str | None = None
    hosts: Hosts = dataclasses.field(default_factory=Hosts)


@contextlib.contextmanager
def open_rooms(config: ConfigDict, workdir: pathlib.Path, hosts: Hosts) -> Iterator[Rooms]:
    """Builds the parts of a run, and ends their processes.

    Raises:
        HostError: processes have other settings, or do not share the workdir.
        RemoteSetupError: the recipe needs a server, but a package or the key is missing.
    """
    hosts.agree("settings", settings.shared_settings(config))
    with hosts.leader_first("settings"):
        if not hosts.leader and not (workdir / settings.FILE).exists():
            raise HostError(f"process {hosts.index} does not see {workdir}: expected a shared one")
        workdir.mkdir(parents=True, exist_ok=True)
        settings.tie_to_config(config, workdir)
    with open_remote(config) as server:
        pool = rooms_lib.open_pool(config)
        try:
            if hosts.leader:
                _report_layers(pool.layers(), workdir)
            yield rooms_lib.build(config, workdir, hosts, pool, server)
        finally:
            pool.shut_down()


def _report_layers(layers: dict[str, str], workdir: pathlib.Path) -> None:
    """Keeps the layers of confinement with the run, and names the ones that this host lacks."""
    (workdir / "sandbox.json").write_bytes(msgspec.json.encode(layers))
    for name, reason in layers.items():
        if reason:
            rich.print(f"[yellow]sandbox layer {name} is missing[/]: {escape(reason)}")


def first_state(rooms: Rooms, params: Params, records: Records | None = None) -> RunState:
    """A run's state before its first step; `records` are those of a source of environments."""
    learner = rooms.learner.adopt(params)
    reference = rooms.learner.reference(learner.params) if rooms.config.learner.kl else None
    return RunState(learner, reference, records or Records())


def abstract_state(rooms: Rooms) -> RunState:
    """Shapes and shardings of the run's state, for a restore."""
    reference = rooms.learner.abstract_reference() if rooms.config.learner.kl else None
    return RunState(rooms.learner.abstract(), reference, Records())


def newest_state(rooms: Rooms) -> RunState:
    """The newest checkpoint of the workdir; without one, the model that it would start from."""
    if not has_run(rooms.workdir):
        return first_state(rooms, rooms.language.params())
    folder, keep = rooms.workdir / "checkpoints", rooms.config.checkpoint.keep
    with contextlib.closing(
        Checkpoints(folder, keep, read_only=True, hosts=rooms.hosts)
    ) as checkpoints:
        return checkpoints.restore(abstract_state(rooms))


def has_run(workdir: pathlib.Path) -> bool:
    """Whether a complete checkpoint is there; a stopped warm start leaves an empty folder."""
    folder = workdir / "checkpoints"
    return folder.is_dir() and any(step.name.isdigit() for step in folder.iterdir())


def require_model(config: ConfigDict, workdir: pathlib.Path) -> None:
    """Raises CheckpointError when there is nothing to look at."""
    if not has_run(workdir) and not config.model.checkpoint:
        raise CheckpointError(f"{workdir} holds no checkpoints; train first (--mode=train)")


def open_public_model(config: ConfigDict, role: str) -> tuple[Language, Engine]:
    """The model of `config.model.checkpoint` and its engine, with the shapes of a role.

    Raises:
        ConfigError: the engine's slots do not fit the replica.
    """
    mesh = parallel.make_mesh(config.replica)
    language = open_pretrained(config, mesh)
    engine = rooms_lib.open_engine(config, mesh, role, language.model)
    engine.load(language.params(), 0)
    return language, engine
