"""Convert checkpoints: Hugging Face safetensors or GGUF to ours, and ours back to Hugging Face.

    python -m spade_jax.models.convert --from=DIR_OR_GGUF --to=CKPT
    python -m spade_jax.models.convert --from=CKPT --to-hf=DIR

CKPT is a folder: `params/`, an orbax checkpoint that restores onto any mesh, and `config.json` in
the style of the hub. Memory holds the result and about one leaf, which stacks one kind of tensor
over the layers; `load` onto a mesh, one layer of a leaf.
"""

import argparse
import functools
import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import NamedSharding, PartitionSpec

from spade_jax import extras
from spade_jax.models.config import ModelConfig, ModelError
from spade_jax.models.hf import config_from_hf, config_to_hf
from spade_jax.models.sources import (
    CONFIG,
    INDEX,
    WEIGHTS,
    SafetensorsFolder,
    TensorSource,
    read_json,
)
from spade_jax.models.table import EMBEDDING, HEAD, IGNORED, Row, table
from spade_jax.models.transformer import Params

Path = tuple[str, ...]  # of a leaf

DTYPES = ("float32", "bfloat16", "float16")
SHARD_BYTES = 5 * 10**9  # of an exported file, as transformers splits them
CHUNK_BYTES = 64 * 2**20  # of an orbax array, so that a mesh reads only its parts


def open_source(path: str | pathlib.Path) -> TensorSource:
    """A folder of safetensors or a GGUF file.

    Raises:
        ModelError: it is neither.
    """
    path = pathlib.Path(path)
    if path.suffix == ".gguf":
        from spade_jax.models.gguf import GgufFile

        return GgufFile(path)
    return SafetensorsFolder(path)


def load(source: TensorSource, config: ModelConfig, dtype=jnp.float32, shardings=None) -> Params:
    """The parameter tree of `source`.

    Args:
        dtype: of the result.
        shardings: a tree like the result, of `NamedSharding`; None: all on the default device.

    Raises:
        ModelError: a tensor is missing, unknown, or not of the shape that `config` implies.
    """
    rows = _checked_rows(source, config)
    placed = {} if shardings is None else _leaves(rows, shardings)
    return unflatten_dict(
        {row.path: _stacked(source, row, dtype, placed.get(row.path)) for row in rows}
    )


def _stacked(source: TensorSource, row: Row, dtype, sharding: NamedSharding | None) -> jax.Array:
    """A leaf. The host holds one layer of it at a time if there is a mesh, else all of it."""
    names = dict(row.tensors())

    def read(*layer: int) -> np.ndarray:
        stack = row.stack[len(layer) :]
        part = np.empty(stack + row.shape, dtype)
        for index in np.ndindex(*stack):
            part[index] = row.from_hf(source.read(names[*layer, *index]))
        return part

    if sharding is None:
        return jax.block_until_ready(jax.device_put(read()))  # `jnp.asarray` would copy twice
    if not row.stack:
        return _on_mesh(read(), sharding)
    leaf = jnp.zeros(row.stack + row.shape, dtype, device=sharding)
    of_layer = NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[1:]))
    for layer in range(row.stack[0]):
        leaf = _with_layer(leaf, layer, _on_mesh(read(layer), of_layer), sharding)
    return leaf


def _on_mesh(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    placed = jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
    return jax.block_until_ready(placed)  # else `array` outlives this call by the transfer


@functools.partial(jax.jit, donate_argnums=0, static_argnums=3)
def _with_layer(leaf: jax.Array, layer: int, values: jax.Array, sharding: NamedSharding):
    """`leaf` with one layer replaced, in place."""
    leaf = jax.lax.dynamic_update_index_in_dim(leaf, values, layer, axis=0)
    return jax.lax.with_sharding_constraint(leaf, sharding)


def _checked_rows(source: TensorSource, config: ModelConfig) -> list[Row]:
    names = {name for name in source.names() if not IGNORED.fullmatch(name)}
    rows = table(config, fused=any(name.endswith("experts.gate_up_proj") for name in names))
    expected = {name: row.hf_shape for row in rows for _, name in row.tensors()}
    if missing := sorted(expected.keys() - names):
        raise ModelError(f"{_listed(missing)} missing from the checkpoint")
    if config.tied and HEAD in names:
        _check_tie(source)
        names.remove(HEAD)
    if extra := sorted(names - expected.keys()):
        raise ModelError(f"{_listed(extra)} in the checkpoint, but not in this model")
    for name, shape in expected.items():
        if tuple(source.shape(name)) != shape:
            raise ModelError(f"{name} has shape {tuple(source.shape(name))}; expected {shape}")
    return rows


def _check_tie(source: TensorSource) -> None:
    """Tied checkpoints may hold the head as well: then it must be the embedding."""
    if not np.array_equal(source.read(HEAD), source.read(EMBEDDING)):
        raise ModelError(f"tie_word_embeddings=True, but {HEAD} differs from {EMBEDDING}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more + (" is" if len(names) == 1 else " are")


def _leaves(rows: list[Row], tree: Mapping) -> dict[Path, Any]:
    """`tree` by path. Raises ModelError: it is not a tree of the model that `rows` describe."""
    flat, known = flatten_dict(nn.unbox(tree)), {row.path for row in rows}
    for path in sorted(flat.keys() ^ known):
        problem = "misses" if path in known else "has an unknown"
        raise ModelError(f"the tree {problem} {'/'.join(path)}")
    return flat


def _params(rows: list[Row], params: Params) -> dict[Path, jax.Array]:
    """`_leaves`, with the shapes checked too."""
    flat = _leaves(rows, params)
    for row in rows:
        shape, expected = tuple(flat[row.path].shape), row.stack + row.shape
        if shape != expected:
            raise ModelError(f"{'/'.join(row.path)} has shape {shape}; expected {expected}")
    return flat


def save_hf(
    config: ModelConfig,
    params: Params,
    folder: str | pathlib.Path,
    *,
    base: Mapping[str, Any] | None = None,
    dtype=None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Writes `config.json` and `model.safetensors` (or shards and their index) for transformers.

    Memory holds one file's tensors and one stacked leaf beyond `params`.

    Args:
        base: a config from which `hf.CARRIED` is kept, such as the one that was converted from.
        dtype: of the files; None keeps that of `params`.
        shard_bytes: size above which there is more than one file.

    Raises:
        ModelError: `params` is not a tree of `config`, Hugging Face has no such model, or the
            package safetensors is missing.
    """
    leaves = _params(table(config), params)

    def read(path: Path) -> np.ndarray:
        return np.asarray(jnp.copy(leaves[path]))  # a gathered array keeps what it gathered

    _write_hf(config, read, folder, base, dtype or leaves["embedding",].dtype, shard_bytes)


def _write_hf(
    config: ModelConfig,
    read: Callable[[Path], np.ndarray],
    folder: str | pathlib.Path,
    base: Mapping[str, Any] | None,
    dtype,
    shard_bytes: int,
) -> None:
    """`save_hf` with leaves that `read` fetches, in the table's order and each once."""
    library = extras.require("safetensors.numpy", "hf", ModelError)
    folder, rows, dtype = pathlib.Path(folder), table(config), jnp.dtype(dtype)
    raw = config_to_hf(config, base) | {"torch_dtype": dtype.name}
    _refuse_existing(folder, "*.safetensors*")
    folder.mkdir(parents=True, exist_ok=True)
    files = _plan(rows, dtype.itemsize, shard_bytes)
    tensors = _exported(rows, read, dtype)
    for file, names in files.items():
        part = dict(next(tensors) for _ in names)
        library.save_file(part, folder / file, metadata={"format": "pt"})
        del part
    if len(files) > 1:
        total = dtype.itemsize * sum(math.prod(row.stack + row.shape) for row in rows)
        weight_map = {name: file for file, names in files.items() for name in names}
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        _write_json(folder / INDEX, index)
    _write_json(folder / CONFIG, raw)


def _refuse_existing(folder: pathlib.Path, pattern: str) -> None:
    for path in folder.glob(pattern):
        raise ModelError(f"{path} exists already; choose an empty folder")


def _plan(rows: list[Row], itemsize: int, shard_bytes: int) -> dict[str, list[str]]:
    """File -> the names in it, in the table's order."""
    groups: list[list[str]] = [[]]
    size = 0
    for row in rows:
        num_bytes = itemsize * int(np.prod(row.shape))
        for _, name in row.tensors():
            if groups[-1] and size + num_bytes > shard_bytes:
                groups.append([])
                size = 0
            groups[-1].append(name)
            size += num_bytes
    if len(groups) == 1:
        return {WEIGHTS: groups[0]}
    total = len(groups)
    return {f"model-{i:05}-of-{total:05}.safetensors": names for i, names in enumerate(groups, 1)}


def _exported(rows: list[Row], read: Callable, dtype) -> Iterator[tuple[str, np.ndarray]]:
    for row in rows:
        leaf = read(row.path)
        for index, name in row.tensors():
            yield name, row.to_hf(leaf[index].astype(dtype))
        del leaf  # before the next one comes


def _write_json(path: pathlib.Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def save_checkpoint(
    config: ModelConfig,
    params: Params,
    folder: str | pathlib.Path,
    *,
    base: Mapping[str, Any] | None = None,
) -> None:
    """Writes a CKPT folder; `config.json` comes last and marks it complete.

    Args:
        base: as for `save_hf`.

    Raises:
        ModelError: the folder holds a checkpoint already, or Hugging Face has no such model.
    """
    folder = pathlib.Path(folder).absolute()
    leaves = _params(table(config), params)
    raw = config_to_hf(config, base) | {"torch_dtype": leaves["embedding",].dtype.name}
    _refuse_existing(folder, "params")
    params = unflatten_dict(leaves)
    chunked = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=CHUNK_BYTES), params)
    with _checkpointer(1 + max(leaf.nbytes for leaf in leaves.values())) as checkpointer:
        checkpointer.save(folder / "params", ocp.args.PyTreeSave(params, save_args=chunked))
    _write_json(folder / CONFIG, raw)


def _checkpointer(in_flight: int | None = None) -> ocp.Checkpointer:
    """`in_flight`: bytes of the leaves being written at once; None: orbax compresses them all
    before the first file is written, and so holds a second copy."""
    handler = ocp.BasePyTreeCheckpointHandler(save_concurrent_bytes=in_flight)
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(handler_impl=handler))


def load_checkpoint(
    folder: str | pathlib.Path, dtype=None, shardings=None
) -> tuple[ModelConfig, Params]:
    """What `save_checkpoint` wrote.

    Args:
        dtype: of the result; None keeps the stored one.
        shardings: as for `load`.

    Raises:
        ModelError: there is no complete checkpoint, or it does not fit its config.
    """
    stored = _Stored(folder)
    if shardings is None:
        device = jax.sharding.SingleDeviceSharding(next(iter(jnp.zeros(()).devices())))
        placed = dict.fromkeys(stored.leaves, device)
    else:
        placed = _leaves(table(stored.config), shardings)
    how = {
        path: ocp.ArrayRestoreArgs(sharding=placed[path], dtype=dtype or leaf.dtype)
        for path, leaf in stored.leaves.items()
    }
    return stored.config, unflatten_dict(stored.restore(how))


class _Stored:
    """A CKPT folder whose leaves are restored when asked for.

    Attributes:
        raw: its `config.json`.
        leaves: shape and dtype of every leaf, by path.

    Raises:
        ModelError: as `load_checkpoint`.
    """

    def __init__(self, folder: str | pathlib.Path):
        folder = pathlib.Path(folder).absolute()
        self.raw = read_json(folder / CONFIG)
        self.config = config_from_hf(self.raw)
        self._params = folder / "params"
        if not self._params.is_dir():
            raise ModelError(f"{self._params} is missing: not a checkpoint of ours")
        with _checkpointer() as checkpointer:
            found = checkpointer.metadata(self._params).item_metadata
        if found is None:
            raise ModelError(f"{self._params} is not a complete orbax checkpoint")
        self.leaves = _params(table(self.config), found.tree)

    def restore(self, how: Mapping[Path, ocp.RestoreArgs]) -> dict[Path, Any]:
        """The leaves that `how` names."""
        target = unflatten_dict({path: self.leaves[path] for path in how})
        args = ocp.args.PyTreeRestore(target, unflatten_dict(how), partial_restore=True)
        with _checkpointer() as checkpointer:
            return flatten_dict(checkpointer.restore(self._params, args))

    def read(self, path: Path) -> np.ndarray:
        return self.restore({path: ocp.RestoreArgs(restore_type=np.ndarray)})[path]


def to_checkpoint(path: str, folder: str, dtype: str | None) -> None:
    _refuse_existing(pathlib.Path(folder), "params")
    source = open_source(path)
    config = config_from_hf(source.config)
    params = load(source, config, jnp.dtype(dtype or "float32"))
    save_checkpoint(config, params, folder, base=source.config)


def to_hf(path: str, folder: str, dtype: str | None) -> None:
    _refuse_existing(pathlib.Path(folder), "*.safetensors*")
    stored = _Stored(path)
    dtype = dtype or stored.leaves["embedding",].dtype
    _write_hf(stored.config, stored.read, folder, stored.raw, dtype, SHARD_BYTES)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m spade_jax.models.convert",
        description="Convert checkpoints from Hugging Face safetensors or GGUF, and back.",
    )
    parser.add_argument("--from", dest="path", required=True, metavar="PATH", help="what to read")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--to", metavar="CKPT", help="write an orbax checkpoint")
    target.add_argument("--to-hf", metavar="DIR", help="write a folder for transformers")
    parser.add_argument(
        "--dtype", choices=DTYPES, help="of what is written; default: fp32 with --to, else as read"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    convert = to_checkpoint if arguments.to else to_hf
    try:
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            convert(arguments.path, arguments.to or arguments.to_hf, arguments.dtype)
    except ModelError as error:
        print(f"ModelError: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
