"""A recipe's programs, lowered for the meshes that they run on, from shapes alone.

The learner's run on all chips of the slice, prefill and decode on the chips of one rollout replica
while the learner's state rests beside them, and `reshard` turns the learner's parameters into the
replicas' copies.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from ml_collections import ConfigDict

from spade_jax import models, parallel
from spade_jax.aot.topology import AotError, Topology
from spade_jax.models import flops
from spade_jax.models.cache import position_bytes
from spade_jax.rl import Learner
from spade_jax.rooms import open_learner
from spade_jax.sampler import EngineSettings, SettingsError
from spade_jax.sampler.planner import Kind, Planner
from spade_jax.sampler.programs import DecodeInputs, Programs
from spade_jax.sampler.request import MAX_STOP_IDS

ROLES = ("designer", "agent")
ROLE = "agent"  # whose rows most programs are shaped by; the designer's differ in number only


@dataclasses.dataclass(frozen=True)
class Program:
    """Attributes:
    lower: makes the lowered program; arrays are shapes with shardings.
    shapes: what a reader knows it by.
    flops: of one run on all its chips; of one token per row where it decodes.
    resident: bytes on each chip that it does not take but that are there while it runs, by name.
    """

    name: str
    mesh: Mesh
    lower: Callable[[], jax.stages.Lowered]
    shapes: Mapping[str, int]
    flops: float
    resident: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What all programs of a recipe share on a slice.

    Attributes:
        replica: the mesh of one rollout replica, which is the first host's.
    """

    config: ConfigDict
    model: models.ModelConfig
    topology: Topology
    learner: Learner
    replica: Mesh

    @classmethod
    def of(cls, config: ConfigDict, topology: Topology) -> "Plan":
        """
        Raises:
            AotError, MeshError, ModelError: the recipe does not fit the slice.
        """
        model = models.of_recipe(config)
        mesh = parallel.make_mesh(config.mesh, topology.devices)
        for role in ROLES:
            _divides(f"learner.{role}.rows", config.learner[role].rows, mesh)
        replica = parallel.make_mesh(config.replica, topology.host().devices)
        return cls(config, model, topology, open_learner(config, mesh, model), replica)

    @property
    def reference_bytes(self) -> int:
        """Of the frozen reference on each of the learner's chips."""
        return held_bytes(self.learner.abstract_reference()) if self.config.learner.kl else 0

    @property
    def replica_params(self) -> models.Params:
        """Shapes of the parameters that a replica samples from."""
        return _copies(self.model, self.replica)


def train(plan: Plan) -> Iterator[Program]:
    """The gradient of one micro-batch and the update that ends a step."""
    section, learner = plan.config.learner[ROLE], plan.learner
    rows, length, mesh = section.rows, section.length, learner.mesh
    state, has_reference = learner.abstract(), bool(plan.config.learner.kl)
    # Beside what the gradient reads and gives lie the optimizer's state, the sum of this role's
    # micro-batches so far, and the other role's; beside `apply`, which reads their sum, none.
    yield Program(
        "gradients", mesh, lambda: learner.lower_gradients(rows, length),
        {"rows": rows, "length": length},
        flops.gradient_flops(plan.model, rows * length, (length + 1) / 2, has_reference),
        {
            "optimizer": held_bytes(state.opt_state),
            "gradient_sums": 2 * held_bytes(state.params),
        },
    )  # fmt: skip
    yield Program(
        "apply", mesh, learner.lower_apply, {}, 0.0, {"reference": plan.reference_bytes}
    )


def prefill(plan: Plan) -> Iterator[Program]:
    """The widest one, behind the longest past."""
    yield _sampling(plan, plan.config.sampler[ROLE].prefill_chunks[-1])


def decode(plan: Plan) -> Iterator[Program]:
    """Behind the longest past."""
    yield _sampling(plan, None)


def _sampling(plan: Plan, width: int | None) -> Program:
    settings = EngineSettings(**plan.config.sampler[ROLE])
    mesh, model = plan.replica, plan.model
    shards = parallel.row_shards(mesh)
    for role in ROLES:
        _divides(f"sampler.{role}.num_slots", plan.config.sampler[role].num_slots, mesh)
    try:
        pages = settings.pages(position_bytes(model), shards)
    except SettingsError as error:
        raise AotError(f"sampler.{ROLE}.{error}") from error
    programs = Programs(
        model, mesh, pages, settings.page, settings.decode_chunk,
        unstack=False if plan.topology.is_simulated else None,
    )  # fmt: skip
    kind = Kind(width, settings.past_lengths()[-1])
    rows = Planner(settings, shards).rows(kind)
    past = _cache(model, mesh, rows, kind.past)
    if width is None:
        inputs, function = (_decode_inputs(rows),), programs.decode
        count = flops.forward_flops(model, rows, kind.past, rows)
    else:
        inputs, function = (_numbers(rows, width), _numbers(rows)), programs.prefill
        count = flops.forward_flops(model, rows * width, kind.past + width / 2, 0)
    recent = held_bytes(_cache(model, mesh, rows, width or settings.decode_chunk))
    resident = {
        "learner": held_bytes(plan.learner.abstract()),
        "reference": plan.reference_bytes,
        "cache": held_bytes(_cache(model, mesh, shards * pages, settings.page)),
        "other_streams": (settings.streams - 1) * (held_bytes(past) + recent),
    }
    return Program(
        "decode" if width is None else "prefill", mesh,
        lambda: function.lower(plan.replica_params, past, *inputs),
        {"rows": rows, "length": width or 1, "past": kind.past}, count, resident,
    )  # fmt: skip


def reshard(plan: Plan) -> Iterator[Program]:
    """From the learner's parameters to a copy for each replica."""
    learner, replicas = plan.learner, parallel.make_replicas(
        plan.config.replica, plan.topology.devices
    )
    move = parallel.ToReplica(
        learner.shardings.params, replicas, functools.partial(models.cast, plan.model), 0
    )
    state = learner.abstract()
    yield Program(
        "reshard", replicas, lambda: move.lower(state.params), {}, 0.0,
        {"optimizer": held_bytes(state.opt_state), "reference": plan.reference_bytes},
    )  # fmt: skip


PROGRAMS: Mapping[str, Callable[[Plan], Iterator[Program]]] = {
    "train": train, "prefill": prefill, "decode": decode, "reshard": reshard,
}  # fmt: skip


def held_bytes(tree) -> int:
    """Bytes of a tree's leaves on one chip."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def _divides(key: str, count: int, mesh: Mesh) -> None:
    shards = parallel.row_shards(mesh)
    if count % shards:
        raise AotError(
            f"{key}={count}: expected a multiple of the mesh's data * fsdp * expert = {shards}"
        )


def _copies(model: models.ModelConfig, mesh: Mesh) -> models.Params:
    boxed = jax.eval_shape(lambda: models.init(model, jax.random.key(0)))
    shapes = jax.eval_shape(lambda params: models.cast(model, params), parallel.unbox(boxed))
    return _placed(shapes, parallel.tree_shardings(mesh, boxed))


def _cache(model: models.ModelConfig, mesh: Mesh, rows: int, length: int) -> models.Cache:
    shapes = jax.eval_shape(lambda: models.init_cache(model, rows, length))
    held = parallel.sharding(mesh, None, "slots", "kv_heads", None, None)
    return _placed(shapes, jax.tree.map(lambda _: held, shapes))


def _placed(shapes, shardings):
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes, shardings,
    )  # fmt: skip


def _numbers(*shape: int, dtype=jnp.int32) -> jax.ShapeDtypeStruct:
    """Small inputs come from the host."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _decode_inputs(rows: int) -> DecodeInputs:
    floats = {name: _numbers(rows, dtype=jnp.float32) for name in ("temperature", "top_p")}
    return DecodeInputs(
        **{name: _numbers(rows) for name in ("token", "length", "budget", "noise", "top_k")},
        **floats, seed=_numbers(rows, dtype=jnp.uint32), stop=_numbers(rows, MAX_STOP_IDS),
    )  # fmt: skip
