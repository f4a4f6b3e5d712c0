"""GGUF files written with the library's writer, from a checkpoint of golden/."""

import json

import gguf
import numpy as np
import pytest

from spade_jax.models import ModelError
from spade_jax.models.gguf import TENSOR_TYPES, GgufFile
from spade_jax.models.sources import SafetensorsFolder
from tests.models import golden

CHECKPOINT = golden.FOLDER / "llama_tied"
CONFIG = json.loads((CHECKPOINT / "config.json").read_text())
SOURCE = SafetensorsFolder(CHECKPOINT)
WEIGHTS = {name: SOURCE.read(name) for name in SOURCE.names()}
PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
KINDS = gguf.GGMLQuantizationType


def gguf_name(name):
    if name.startswith("model.layers."):
        layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
        return f"blk.{layer}.{PARTS[part]}.weight"
    return {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }[name]


def interleaved(rows):
    """llama.cpp's order of query and key rows: the two halves of each head take turns."""
    half, out = CONFIG["head_dim"] // 2, np.empty_like(rows)
    for head in range(0, len(rows), 2 * half):
        for i in range(half):
            out[head + 2 * i] = rows[head + i]
            out[head + 2 * i + 1] = rows[head + half + i]
    return out


def kind_of(name):
    if "down_proj" in name:
        return KINDS.Q8_0  # the only rows here that Q8_0's blocks of 32 divide
    return KINDS.F16 if "gate_proj" in name or name.endswith("1.self_attn.q_proj.weight") else None


def write(path, weights=WEIGHTS, architecture="llama", raw=(), change=lambda writer: None):
    """`raw`: tensors by their GGUF names; `change` may add metadata."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(CONFIG["max_position_embeddings"])
    writer.add_embedding_length(CONFIG["hidden_size"])
    writer.add_block_count(CONFIG["num_hidden_layers"])
    writer.add_feed_forward_length(CONFIG["intermediate_size"])
    writer.add_head_count_kv(CONFIG["num_key_value_heads"])
    writer.add_rope_freq_base(CONFIG["rope_theta"])
    writer.add_layer_norm_rms_eps(CONFIG["rms_norm_eps"])
    writer.add_rope_dimension_count(CONFIG["head_dim"])
    writer.add_bos_token_id(CONFIG["bos_token_id"])
    writer.add_eos_token_id(CONFIG["eos_token_id"])
    writer.add_head_count(CONFIG["num_attention_heads"])
    change(writer)
    for name, value in weights.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            value = interleaved(value)
        if kind := kind_of(name):
            writer.add_tensor(gguf_name(name), gguf.quantize(value, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(value))
    for name, value in dict(raw).items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return GgufFile(write(tmp_path_factory.mktemp("gguf") / "tiny.gguf"))


def test_every_tensor_of_the_checkpoint_is_there_and_no_other(file):
    assert set(file.names()) == set(WEIGHTS)


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_tensors_come_back_in_the_order_and_precision_they_were_stored_in(file, name):
    got, want = file.read(name), WEIGHTS[name]
    assert got.dtype == np.float32
    assert got.flags.writeable
    assert file.shape(name) == got.shape == want.shape
    if kind_of(name) is None:
        np.testing.assert_array_equal(got, want)
    elif kind_of(name) == KINDS.F16:
        np.testing.assert_array_equal(got, want.astype(np.float16).astype(np.float32))
    else:
        # Half a step of a block of 32, whose 127 steps reach its largest entry; fp16 scale.
        largest = np.abs(want.reshape(-1, 32)).max(axis=1, keepdims=True)
        error = np.abs((got - want).reshape(-1, 32))
        assert error.max() > 0 and (error <= largest * (0.5 / 127 + 2**-11)).all()


def test_config_equals_the_checkpoints(file):
    assert file.config == {key: CONFIG[key] for key in file.config}
    assert isinstance(file.config["rms_norm_eps"], float)
    assert {"head_dim", "rope_theta", "vocab_size", "eos_token_id"} <= file.config.keys()


def test_an_output_matrix_means_untied_embeddings(tmp_path):
    head = WEIGHTS["model.embed_tokens.weight"][::-1].copy()
    path = write(tmp_path / "untied.gguf", WEIGHTS | {"lm_head.weight": head})
    untied = GgufFile(path)
    assert untied.config["tie_word_embeddings"] is False
    np.testing.assert_array_equal(untied.read("lm_head.weight"), head)


def test_heads_may_be_wider_than_their_share_of_the_model(tmp_path):
    rows = {name: value for name, value in WEIGHTS.items() if "self_attn" not in name}
    query = np.random.default_rng(0).normal(size=(6 * 16, 48)).astype(np.float32)
    order = np.arange(96).reshape(6, 2, 8).swapaxes(1, 2).reshape(-1)
    path = write(
        tmp_path / "wide.gguf",
        rows,
        raw={"blk.0.attn_q.weight": query[order]},
        change=lambda w: (
            w.add_key_length(16),
            w.add_value_length(16),
            w.kv_data[0].pop("llama.rope.dimension_count"),
        ),
    )
    wide = GgufFile(path)
    assert wide.config["head_dim"] == 16
    np.testing.assert_array_equal(wide.read("model.layers.0.self_attn.q_proj.weight"), query)


def overwrite(key, value, kind):
    def change(writer):
        writer.kv_data[0].pop(key, None)
        writer.add_key_value(key, value, kind)

    return change


UINT32, FLOAT32 = gguf.GGUFValueType.UINT32, gguf.GGUFValueType.FLOAT32


@pytest.mark.parametrize(
    "options,named",
    [
        ({"architecture": "gptneox"}, "'gptneox' is unsupported"),
        ({"raw": {"blk.0.attn_q.bias": np.zeros(48, np.float32)}}, "blk.0.attn_q.bias"),
        ({"raw": {"rope_freqs.weight": np.ones(4, np.float32)}}, "rope_freqs.weight"),
        ({"raw": {"output.weight": np.zeros((256, 48), np.int8)}}, "output.weight .* type I8"),
        ({"weights": {}}, "model.embed_tokens.weight"),
        ({"change": lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)}, "'linear'"),
        ({"change": overwrite("llama.rope.dimension_count", 4, UINT32)}, "dimension_count = 4"),
        ({"change": overwrite("llama.rope.scale_linear", 2.0, FLOAT32)}, "scale_linear = 2.0"),
        ({"change": overwrite("split.count", 3, UINT32)}, "one of 3 parts"),
        ({"change": lambda w: w.kv_data[0].pop("llama.block_count")}, "lack llama.block_count"),
        (
            {"change": lambda w: (w.kv_data[0].pop("llama.attention.head_count_kv"),
                                  w.add_head_count_kv([2, 1]))},
            "head_count_kv differs between layers",
        ),
    ],
)  # fmt: skip
def test_what_is_not_a_plain_llama_is_refused_by_name(tmp_path, options, named):
    path = write(tmp_path / "other.gguf", **options)
    with pytest.raises(ModelError, match=named):
        GgufFile(path)


def test_names_that_the_file_lacks_are_refused(file):
    for look in (file.read, file.shape):
        with pytest.raises(ModelError, match="model.layers.2.mlp.up_proj.weight"):
            look("model.layers.2.mlp.up_proj.weight")


def test_queries_that_do_not_fit_the_heads_are_refused(tmp_path):
    name = "model.layers.0.self_attn.q_proj.weight"
    path = write(tmp_path / "odd.gguf", WEIGHTS | {name: WEIGHTS[name][:40]})
    with pytest.raises(ModelError, match="has 40 rows, but its heads need 48"):
        GgufFile(path).read(name)


@pytest.mark.parametrize("damage", ["absent", "empty", "text", "header cut", "tensors cut"])
def test_files_that_are_not_whole_are_refused(tmp_path, damage):
    path = write(tmp_path / "broken.gguf")
    whole = path.read_bytes()
    damaged = {
        "empty": b"",
        "text": b"not a model " * 100,
        "header cut": whole[:200],
        "tensors cut": whole[:-1000],
    }
    path.unlink() if damage == "absent" else path.write_bytes(damaged[damage])
    with pytest.raises(ModelError, match="broken.gguf"):
        GgufFile(path)


def test_the_library_dequantises_every_type_that_is_not_refused():
    for name in TENSOR_TYPES:
        kind = KINDS[name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        zeros = np.zeros((2, size), np.uint8)
        assert gguf.dequantize(zeros, kind).shape == (2, block)
