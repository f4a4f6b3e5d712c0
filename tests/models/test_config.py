"""The presets say what the config.json of the model that they are named after says."""

import dataclasses

import pytest

from spade_jax import models
from spade_jax.models import hf

QWEN3 = {
    "model_type": "qwen3", "vocab_size": 151_936, "num_attention_heads": 32, "head_dim": 128,
    "rms_norm_eps": 1e-6,
}  # fmt: skip
QWEN3_4B = QWEN3 | {
    "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
    "num_key_value_heads": 8, "rope_theta": 1_000_000, "max_position_embeddings": 40_960,
    "tie_word_embeddings": True,
}  # fmt: skip
QWEN3_30B_A3B = QWEN3 | {
    "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
    "num_hidden_layers": 48, "num_key_value_heads": 4, "num_experts": 128,
    "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "rope_theta": 1_000_000,
    "max_position_embeddings": 40_960, "tie_word_embeddings": False,
}  # fmt: skip
LONG = {"max_position_embeddings": 262_144}
PUBLISHED = {
    "smollm2_135m": {
        "model_type": "llama", "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "rms_norm_eps": 1e-5, "rope_theta": 100_000, "tie_word_embeddings": True,
    },
    "qwen3_4b": QWEN3_4B,
    "qwen3_4b_2507": QWEN3_4B | LONG | {"rope_theta": 5_000_000},
    "qwen3_8b": QWEN3_4B
    | {"hidden_size": 4096, "intermediate_size": 12_288, "tie_word_embeddings": False},
    "qwen3_30b_a3b": QWEN3_30B_A3B,
    "qwen3_30b_a3b_2507": QWEN3_30B_A3B | LONG | {"rope_theta": 10_000_000},
}  # fmt: skip
HOW_TO_RUN = ("attention", "dtype", "experts", "remat", "scan_unroll")


@pytest.mark.parametrize("name", [name for name in models.PRESETS if name != "tiny"])
def test_a_preset_is_the_published_model(name):
    preset, published = models.preset(name), hf.config_from_hf(PUBLISHED[name])
    how = {field: getattr(preset, field) for field in HOW_TO_RUN}
    assert dataclasses.replace(published, **how) == preset
