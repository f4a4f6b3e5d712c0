"""Which kernel computes what on which mesh: chosen by the platform of its devices, or by name.

Each kernel is a function of whole arrays. On a mesh it runs under `shard_map`, so what crosses
devices is what its function says and nothing that a compiler might add.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
from jax.sharding import Mesh, NamedSharding

from spade_jax import parallel
from spade_jax.models import embedding, moe, packed
from spade_jax.models.config import ModelConfig, ModelError
from spade_jax.parallel import collectives


@dataclasses.dataclass(frozen=True)
class Kernels:
    """How a model is computed on one mesh. Rows B of all arrays are split over its `ROW_AXES`.

    Attributes:
        lookup: `(table [V, D], tokens [B, T], dtype) -> [B, T, D]`.
        attend: `(q [B, T, H, d], k, v [B, T, K, d], segment_ids [B, T]) -> [B, T, H, d]`, causal
            within segments; what padding (segment 0) gets is finite and means nothing.
        experts: `(x [B, T, D], logits [B, T, E], route, gate, up [E, D, F], down [E, F, D])
            -> (out [B, T, D], experts [B, T, k])`: the weighted sum of the k experts that
            `route(logits)` gives to each token, and which they are.
        place: puts `[B, ...]` where rows belong, which changes no value.
    """

    lookup: Callable[..., jax.Array]
    attend: Callable[..., jax.Array]
    experts: Callable[..., tuple[jax.Array, jax.Array]]
    place: Callable[[jax.Array], jax.Array]


# Plain array code, for any number of rows, on whatever devices the arrays are.
REFERENCE = Kernels(embedding.lookup, packed.xla, moe.dense, lambda x: x)


def choose(config: ModelConfig, mesh: Mesh) -> Kernels:
    """The kernels that `config.attention` and `config.experts` name, or the best of the mesh's
    platform where they say "auto".

    Raises:
        ModelError: the model cannot be split over this mesh, or a kernel that is named does not
            exist on its platform.
    """
    platform = mesh.devices.flat[0].platform
    _check_divides(config, mesh)
    rows = parallel.sharding(mesh, "batch").spec
    heads = parallel.sharding(mesh, "batch", None, "heads", None).spec
    return Kernels(
        lookup=embedding.sharded(mesh),
        attend=collectives.over_mesh(
            _attention(config, platform), mesh, (heads, heads, heads, rows), heads
        ),
        experts=_experts(config, mesh, platform),
        place=functools.partial(
            jax.lax.with_sharding_constraint, shardings=NamedSharding(mesh, rows)
        ),
    )


def _attention(config: ModelConfig, platform: str) -> Callable[..., jax.Array]:
    name, flash = config.attention, packed.cudnn_takes(config.dtype, config.head_dim)
    if name == "auto":
        name = {"tpu": "splash", "gpu": "cudnn" if flash else "xla"}.get(platform, "xla")
    needs = {"splash": "tpu", "cudnn": "gpu"}
    if needs.get(name, platform) != platform:
        raise ModelError(f"model.attention={name!r}: expected a {needs[name]}, not a {platform}")
    if name == "cudnn" and not flash:
        raise ModelError(
            f"model.attention='cudnn': expected dtype bfloat16 or float16 and a head_dim that is a"
            f" multiple of 8 up to 128, not {config.dtype} and {config.head_dim}"
        )
    return {"xla": packed.xla, "splash": packed.splash, "cudnn": packed.cudnn}[name]


def _experts(config: ModelConfig, mesh: Mesh, platform: str) -> Callable[..., tuple]:
    name = config.experts
    if name == "auto":
        # Before jax 0.12 the gradient of ragged_dot to the weights is a dense product on TPU.
        name = "gmm" if platform == "tpu" and jax.__version_info__ < (0, 12) else "ragged"
    if name == "gmm" and platform != "tpu":
        raise ModelError(f"model.experts='gmm': expected a tpu, not a {platform}")
    if name == "dense":
        return moe.dense
    return moe.expert_parallel(mesh, jax.lax.ragged_dot if name == "ragged" else moe.gmm)


def _check_divides(config: ModelConfig, mesh: Mesh) -> None:
    """Raises ModelError at the first axis of the mesh that does not divide what it splits."""
    split = [
        ("tensor", "num_kv_heads"), ("tensor", "vocab_size"), ("fsdp", "d_model"),
        *([("tensor", "d_expert"), ("expert", "num_experts")] if config.num_experts else
          [("tensor", "d_ff")]),
    ]  # fmt: skip
    for axis, field in split:
        if getattr(config, field) % mesh.shape[axis]:
            raise ModelError(
                f"mesh.{axis}={mesh.shape[axis]}: expected a divisor of the model's"
                f" {field}={getattr(config, field)}"
            )
