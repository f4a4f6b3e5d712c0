"""config.json of Hugging Face, in both dialects and both ways."""

import pytest

from spade_jax import models
from spade_jax.models import hf
from tests.models import golden


@pytest.mark.parametrize("name", golden.NAMES)
def test_both_dialects_give_the_same_model(name):
    hub, v5 = (hf.config_from_hf(golden.raw_config(name, dialect)) for dialect in golden.DIALECTS)
    assert hub == v5


def test_every_value_comes_from_the_config():
    raw = golden.raw_config("qwen3_moe") | {
        "rope_theta": 123.0, "norm_topk_prob": False, "tie_word_embeddings": True, "head_dim": 20,
        "rms_norm_eps": 0.25, "num_experts": 5, "num_experts_per_tok": 3, "vocab_size": 77,
    }  # fmt: skip
    config = hf.config_from_hf(raw)
    assert (config.rope_theta, config.norm_topk, config.tied) == (123.0, False, True)
    assert (config.head_dim, config.norm_eps, config.vocab_size) == (20, 0.25, 77)
    assert (config.num_experts, config.experts_per_token) == (5, 3)


@pytest.mark.parametrize(
    "name,key",
    [
        *[("llama_tied", key) for key in ("rope_theta", "tie_word_embeddings", "rms_norm_eps")],
        *[("qwen3_tied", key) for key in ("head_dim", "num_key_value_heads", "vocab_size")],
        *[("qwen3_moe", key) for key in ("norm_topk_prob", "num_experts", "num_experts_per_tok")],
    ],
)
def test_a_value_that_is_missing_is_named(name, key):
    raw = golden.raw_config(name)
    del raw[key]
    with pytest.raises(models.ModelError, match=f"lacks {key}"):
        hf.config_from_hf(raw)


@pytest.mark.parametrize("absent", [{}, {"head_dim": None, "num_key_value_heads": None}])
def test_llama_derives_its_heads_when_they_are_absent(absent):
    raw = golden.raw_config("llama_tied")
    del raw["head_dim"], raw["num_key_value_heads"]
    config = hf.config_from_hf(raw | absent)
    assert (config.head_dim, config.num_kv_heads) == (8, 6)


@pytest.mark.parametrize(
    "feature,named",
    [
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rope_scaling"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, "rope_parameters"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "rope_parameters"),
        ({"rope_parameters": {"rope_theta": 5.0, "rope_type": "default"}}, "contradicts"),
        ({"num_local_experts": 3}, "contradicts"),
        ({"attention_bias": True}, "attention_bias"),
        ({"use_sliding_window": True, "sliding_window": 4096}, "use_sliding_window"),
        ({"use_sliding_window": None, "sliding_window": 4096}, "sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"model_type": "mistral"}, "mistral"),
        ({"architectures": ["Qwen3MoeForSequenceClassification"]}, "SequenceClassification"),
        ({"mlp_only_layers": [0]}, "mlp_only_layers"),
        ({"decoder_sparse_step": 2}, "decoder_sparse_step"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        ({"hidden_size": "48"}, "hidden_size"),
        ({"norm_topk_prob": 1}, "norm_topk_prob"),
    ],
)
def test_what_we_lack_is_refused_by_name(feature, named):
    with pytest.raises(models.ModelError, match=named):
        hf.config_from_hf(golden.raw_config("qwen3_moe") | feature)


@pytest.mark.parametrize("name", golden.NAMES)
def test_an_exported_config_says_what_the_original_said(name):
    raw = golden.raw_config(name)
    config = hf.config_from_hf(raw)
    out = hf.config_to_hf(config, raw)
    assert {key: raw[key] for key in out} == out
    assert hf.config_from_hf(out) == config


def test_experts_without_qk_norm_have_no_name_there():
    config = models.preset("tiny", num_experts=4, experts_per_token=2, d_expert=8)
    with pytest.raises(models.ModelError, match="qk_norm"):
        hf.config_to_hf(config)
