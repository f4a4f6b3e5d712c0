"""Checkpoints of Hugging Face to our parameter tree and back, bit for bit."""

import dataclasses
import json
import shutil
import weakref

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from flax.traverse_util import flatten_dict

from spade_jax import models, parallel
from spade_jax.models import convert, hf
from spade_jax.models.sources import SafetensorsFolder
from spade_jax.models.table import table
from tests.models import golden

each = pytest.mark.parametrize("name", golden.NAMES)


class Memory:
    """A source of arrays."""

    def __init__(self, config: dict, tensors: dict):
        self.config, self.tensors = config, tensors

    def names(self):
        return self.tensors.keys()

    def shape(self, name):
        return self.tensors[name].shape

    def read(self, name):
        return self.tensors[name]


def memory(name: str) -> Memory:
    tensors = safetensors.numpy.load_file(golden.FOLDER / name / "model.safetensors")
    return Memory(golden.raw_config(name), tensors)


def load(source, **kwargs):
    return convert.load(source, hf.config_from_hf(source.config), **kwargs)


def assert_equal_trees(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def assert_same_files(got, want):
    """Two folders hold the same tensors, bit for bit."""
    got, want = SafetensorsFolder(got), SafetensorsFolder(want)
    assert set(got.names()) == set(want.names())
    for name in want.names():
        a, b = got.read(name), want.read(name)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


@each
def test_the_tree_is_that_of_init(name):
    config, params, _ = golden.load(name)
    fresh = jax.eval_shape(lambda: parallel.unbox(models.init(config, jax.random.key(0))))
    want = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), fresh)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), params) == want


@each
def test_one_tensor_is_held_at_a_time(name, monkeypatch):
    source, held = memory(name), []

    def read(self, key):
        assert all(reference() is None for reference in held), "two tensors at once"
        tensor = self.tensors[key].copy()
        held[:] = [weakref.ref(tensor)]
        return tensor

    monkeypatch.setattr(Memory, "read", read)
    assert_equal_trees(load(source), golden.load(name)[1])
    assert held


@each
def test_there_and_back_is_bit_equal(name, tmp_path):
    config, params, _ = golden.load(name)
    convert.save_hf(config, params, tmp_path, base=golden.raw_config(name))
    assert_same_files(tmp_path, golden.FOLDER / name)
    raw = golden.raw_config(name)
    out = json.loads((tmp_path / "config.json").read_text())
    assert {key: raw[key] for key in out} == out


@each
def test_shards_hold_the_same_tensors(name, tmp_path):
    config, params, _ = golden.load(name)
    convert.save_hf(config, params, tmp_path, shard_bytes=150_000)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert not (tmp_path / "model.safetensors").exists()
    assert_same_files(tmp_path, golden.FOLDER / name)
    assert_equal_trees(load(SafetensorsFolder(tmp_path)), params)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@each
def test_half_precision_is_read_exactly_and_written_back(name, dtype, tmp_path):
    source = memory(name)
    stored = {key: tensor.astype(dtype) for key, tensor in source.tensors.items()}
    (tmp_path / "in").mkdir()
    shutil.copy(golden.FOLDER / name / "config_v5.json", tmp_path / "in" / "config.json")
    safetensors.numpy.save_file(stored, tmp_path / "in" / "model.safetensors")
    params = load(SafetensorsFolder(tmp_path / "in"))
    exact = {key: tensor.astype(np.float32) for key, tensor in stored.items()}
    assert_equal_trees(params, load(Memory(source.config, exact)))
    config = hf.config_from_hf(source.config)
    convert.save_hf(config, params, tmp_path / "out", dtype=dtype)
    assert_same_files(tmp_path / "out", tmp_path / "in")
    narrow = load(SafetensorsFolder(tmp_path / "in"), dtype=jnp.bfloat16)
    assert all(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(narrow))


def test_fused_experts_load():
    source, prefix = memory("qwen3_moe"), "model.layers.{}.mlp.experts."
    want = load(source)
    for layer in range(2):
        start = prefix.format(layer)
        gate, up, down = (
            np.stack([source.tensors.pop(f"{start}{e}.{part}_proj.weight") for e in range(8)])
            for part in ("gate", "up", "down")
        )
        source.tensors[start + "gate_up_proj"] = np.concatenate([gate, up], axis=1)
        source.tensors[start + "down_proj"] = down
    assert_equal_trees(load(source), want)


def test_what_transformers_ignores_is_ignored():
    source = memory("llama_tied")
    want = load(source)
    source.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, np.float32)
    source.tensors["lm_head.weight"] = source.tensors["model.embed_tokens.weight"]
    assert_equal_trees(load(source), want)
    source.tensors["lm_head.weight"] = source.tensors["model.embed_tokens.weight"] + 1
    with pytest.raises(models.ModelError, match="tie_word_embeddings.*lm_head.weight"):
        load(source)


@each
def test_each_missing_tensor_is_named(name):
    for tensor in memory(name).names():
        source = memory(name)
        del source.tensors[tensor]
        with pytest.raises(models.ModelError, match=f"{tensor} is missing"):
            load(source)


@pytest.mark.parametrize(
    "extra", ["model.layers.2.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj.bias", "score"]
)
def test_a_tensor_without_a_place_is_named(extra):
    source = memory("qwen3_tied")
    source.tensors[extra] = np.zeros(3, np.float32)
    with pytest.raises(models.ModelError, match=f"{extra} is in the checkpoint"):
        load(source)


@each
def test_each_wrong_shape_is_named(name):
    for tensor in memory(name).names():
        source = memory(name)
        source.tensors[tensor] = source.tensors[tensor][:-1]
        with pytest.raises(models.ModelError, match=f"{tensor} has shape .* expected"):
            load(source)


def test_a_folder_that_is_broken_is_refused_by_file(tmp_path):
    with pytest.raises(models.ModelError, match="config.json"):
        SafetensorsFolder(tmp_path)
    shutil.copy(golden.FOLDER / "llama_tied" / "config.json", tmp_path)
    with pytest.raises(models.ModelError, match="model.safetensors is missing"):
        SafetensorsFolder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x40" + bytes(20))
    with pytest.raises(models.ModelError, match="model.safetensors cannot be read"):
        SafetensorsFolder(tmp_path)


def test_an_index_that_lies_is_refused(tmp_path):
    shutil.copytree(golden.FOLDER / "llama_tied", tmp_path, dirs_exist_ok=True)
    index = {"weight_map": {"model.norm.weights": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(models.ModelError, match="model.norm.weights"):
        SafetensorsFolder(tmp_path)


def test_a_tensor_in_another_precision_is_named(tmp_path):
    source = memory("llama_tied")
    source.tensors["model.norm.weight"] = np.ones(48, np.int8)
    shutil.copy(golden.FOLDER / "llama_tied" / "config.json", tmp_path)
    safetensors.numpy.save_file(source.tensors, tmp_path / "model.safetensors")
    with pytest.raises(models.ModelError, match="model.norm.weight is stored as I8"):
        load(SafetensorsFolder(tmp_path))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@each
def test_a_checkpoint_comes_back_bit_equal(name, dtype, tmp_path):
    params = load(memory(name), dtype=dtype)
    config = hf.config_from_hf(golden.raw_config(name))
    convert.save_checkpoint(config, params, tmp_path)
    got, restored = convert.load_checkpoint(tmp_path)
    assert got == config
    assert_equal_trees(restored, params)


def shardings_of(config):
    """Of a mesh over all eight devices."""
    mesh = parallel.make_mesh(
        {"fsdp": 2, "tensor": 2, "expert" if config.num_experts else "data": 2}
    )
    boxed = jax.eval_shape(lambda: models.init(config, jax.random.key(0)))
    return parallel.tree_shardings(mesh, boxed)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@each
def test_a_folder_lands_on_the_mesh_and_comes_back(name, dtype, tmp_path):
    config, params, _ = golden.load(name)
    shardings, folder = shardings_of(config), tmp_path / "folder"
    convert.save_hf(config, params, folder, dtype=dtype, shard_bytes=100_000)
    whole = load(convert.open_source(folder), dtype=dtype)
    convert.to_checkpoint(str(folder), str(tmp_path / "ours"), jnp.dtype(dtype).name)
    streamed = load(convert.open_source(folder), dtype=dtype, shardings=shardings)
    _, restored = convert.load_checkpoint(tmp_path / "ours", shardings=shardings)
    for tree, out in ((streamed, tmp_path / "streamed"), (restored, tmp_path / "restored")):
        assert jax.tree.map(lambda leaf: leaf.sharding, tree) == shardings
        convert.save_hf(config, tree, out)
        assert_same_files(out, folder)
        assert all(leaf._npy_value is None for leaf in jax.tree.leaves(tree)), "kept on the host"
        assert_equal_trees(tree, whole)


def test_a_mesh_divides_what_it_holds():
    config, params, _ = golden.load("qwen3_moe")
    sharded = load(memory("qwen3_moe"), shardings=shardings_of(config))
    for path, parts in ((("attention", "q", "kernel"), 4), (("mlp", "gate"), 8)):
        leaf = flatten_dict(sharded["blocks"])[path]
        assert [s.data.size for s in leaf.addressable_shards] == [leaf.size // parts] * 8
    assert_equal_trees(sharded, params)


@each
def test_a_mesh_is_filled_by_the_layer(name, monkeypatch):
    source, shapes, on_mesh = memory(name), [], convert._on_mesh
    config = hf.config_from_hf(source.config)

    def record(array, sharding):
        shapes.append(array.shape)
        return on_mesh(array, sharding)

    monkeypatch.setattr(convert, "_on_mesh", record)
    load(source, shardings=shardings_of(config))
    want = [[row.stack[1:] + row.shape] * (row.stack or (1,))[0] for row in table(config)]
    assert shapes == sum(want, [])


def test_a_tree_of_another_model_is_refused_by_path(tmp_path):
    config, params, _ = golden.load("llama_tied")
    wider, untied = (
        dataclasses.replace(config, **change) for change in ({"d_ff": 97}, {"tied": False})
    )
    for save in (convert.save_hf, convert.save_checkpoint):
        with pytest.raises(models.ModelError, match="blocks/mlp/gate/kernel has shape"):
            save(wider, params, tmp_path)
        with pytest.raises(models.ModelError, match="misses head"):
            save(untied, params, tmp_path)
        with pytest.raises(models.ModelError, match="unknown bias"):
            save(config, params | {"bias": jnp.zeros(1)}, tmp_path)


def test_a_checkpoint_that_does_not_fit_its_config_is_refused(tmp_path):
    config, params, _ = golden.load("llama_tied")
    convert.save_checkpoint(config, params, tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(raw | {"vocab_size": 257}))
    with pytest.raises(models.ModelError, match="embedding has shape"):
        convert.load_checkpoint(tmp_path)
    with pytest.raises(models.ModelError, match="params is missing"):
        convert.load_checkpoint(golden.FOLDER / "llama_tied")
    (tmp_path / "params" / "_METADATA").unlink()
    with pytest.raises(models.ModelError, match="params is not a complete"):
        convert.load_checkpoint(tmp_path)


@each
def test_the_command_converts_there_and_back(name, tmp_path, capsys):
    source, checkpoint, out = golden.FOLDER / name, tmp_path / "checkpoint", tmp_path / "out"
    assert convert.main([f"--from={source}", f"--to={checkpoint}"]) == 0
    assert convert.main([f"--from={checkpoint}", f"--to-hf={out}"]) == 0
    assert_same_files(out, source)
    assert json.loads((out / "config.json").read_text())["max_position_embeddings"] == 4096
    assert convert.main([f"--from={source}", f"--to={checkpoint}"]) == 2
    assert convert.main([f"--from={checkpoint}", f"--to-hf={out}"]) == 2
    assert capsys.readouterr().err.count("exists already") == 2
