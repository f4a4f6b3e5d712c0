"""Hugging Face's `config.json`, both ways.

Architectures: Llama, Qwen3 and Qwen3-MoE. A config may be in the style of the hub (transformers 4)
or of transformers 5; what is written is the hub's style, which both read.
"""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from spade_jax.models.config import ModelConfig, ModelError

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}

# Our field -> the key that every supported config states.
FIELDS = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "d_ff": "intermediate_size",
    "norm_eps": "rms_norm_eps",
    "tied": "tie_word_embeddings",
}
EXPERT_FIELDS = {
    "num_experts": "num_experts",
    "experts_per_token": "num_experts_per_tok",
    "d_expert": "moe_intermediate_size",
    "norm_topk": "norm_topk_prob",
}

# Keys that say nothing about our computation, kept from one export to the next.
CARRIED = (
    "max_position_embeddings", "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id",
)  # fmt: skip

# Key -> the values that mean "off". Anything else is a feature that we lack.
UNSUPPORTED = {
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "use_sliding_window": (False,),
    "mlp_only_layers": ([],),
    "decoder_sparse_step": (1,),
    "hidden_act": ("silu",),
    "quantization_config": (),
}


def config_from_hf(raw: Mapping[str, Any]) -> ModelConfig:
    """The model that a `config.json` describes.

    Every value comes from `raw`. How the model is run (`dtype`, `remat`,
    `scan_unroll`, its kernels) is no property of a checkpoint and has `ModelConfig`'s default.

    Raises:
        ModelError: a key is missing, contradicts another, or asks for a feature that we lack.
    """
    kind = raw.get("model_type")
    if kind not in ARCHITECTURES:
        raise ModelError(f"model_type={kind!r} is not supported; known: {', '.join(ARCHITECTURES)}")
    _refuse_unsupported(raw, ARCHITECTURES[kind])
    keys = FIELDS | (EXPERT_FIELDS if kind == "qwen3_moe" else {})
    raw = _explicit(raw)
    values = {field: _number(raw, key) for field, key in keys.items()}
    values["rope_theta"] = _number(raw, "rope_theta")
    return ModelConfig(**values, qk_norm=kind != "llama")


def config_to_hf(config: ModelConfig, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A hub-style `config.json`; what does not concern us (`CARRIED`) is taken from `base`.

    Raises:
        ModelError: no architecture of Hugging Face has this combination.
    """
    if config.num_experts and not config.qk_norm:
        raise ModelError(f"num_experts={config.num_experts} without qk_norm has no HF architecture")
    kind = "qwen3_moe" if config.num_experts else "qwen3" if config.qk_norm else "llama"
    fields = FIELDS | (EXPERT_FIELDS if config.num_experts else {})
    moe = {"decoder_sparse_step": 1, "mlp_only_layers": []} if config.num_experts else {}
    return {
        "architectures": [ARCHITECTURES[kind]],
        "model_type": kind,
        **{key: getattr(config, field) for field, key in fields.items()},
        **moe,
        "rope_theta": config.rope_theta,
        "rope_scaling": None,
        "hidden_act": "silu",
        "attention_bias": False,
        **{key: base[key] for key in CARRIED if base and key in base},
    }


def _refuse_unsupported(raw: Mapping[str, Any], architecture: str) -> None:
    for key, off in UNSUPPORTED.items():
        if raw.get(key) is not None and raw[key] not in off:
            expected = off[0] if off else "no such key"
            raise ModelError(f"{key}={raw[key]!r} is not supported; expected {expected}")
    if raw.get("architectures") not in (None, [architecture]):
        raise ModelError(f"architectures={raw['architectures']!r} must be [{architecture!r}]")
    if raw.get("sliding_window") is not None and raw.get("use_sliding_window") is not False:
        raise ModelError(f"sliding_window={raw['sliding_window']!r} is not supported")
    if windowed := set(raw.get("layer_types") or ()) - {"full_attention"}:
        raise ModelError(f"layer_types={sorted(windowed)} are not supported")
    for key in ("rope_scaling", "rope_parameters"):
        rope = dict(raw.get(key) or {})
        rope.pop("rope_theta", None)
        if rope.pop("rope_type", rope.pop("type", "default")) != "default" or rope:
            raise ModelError(f"{key}={raw[key]!r} is not supported; expected rope_type 'default'")


def _explicit(raw: Mapping[str, Any]) -> dict[str, Any]:
    """`raw` with the hub's names, and with what Llama's config derives when it is absent."""
    out = {key: value for key, value in raw.items() if value is not None}
    _merge(out, "num_experts", "num_local_experts", out.get("num_local_experts"))
    for key in ("rope_parameters", "rope_scaling"):
        _merge(out, "rope_theta", f"{key}.rope_theta", out.get(key, {}).get("rope_theta"))
    if out["model_type"] == "llama":
        heads = _number(out, "num_attention_heads")
        out.setdefault("num_key_value_heads", heads)
        out.setdefault("head_dim", _number(out, "hidden_size") // heads)
    return out


def _merge(out: dict[str, Any], key: str, synonym: str, value: Any) -> None:
    if value is not None and out.setdefault(key, value) != value:
        raise ModelError(f"{key}={out[key]!r} contradicts {synonym}={value!r}")


def _number(raw: Mapping[str, Any], key: str) -> int | float | bool:
    """`raw[key]`: a bool for a switch, else a positive number.

    Raises:
        ModelError: it is missing, or something else.
    """
    if key not in raw:
        raise ModelError(f"the checkpoint's config lacks {key}, which has no default here")
    value, switch = raw[key], key in ("tie_word_embeddings", "norm_topk_prob")
    if switch and isinstance(value, bool):
        return value
    kind, to = (Real, float) if key in ("rms_norm_eps", "rope_theta") else (Integral, int)
    if switch or isinstance(value, bool) or not isinstance(value, kind) or value <= 0:
        expected = "a bool" if switch else f"a positive {to.__name__}"
        raise ModelError(f"{key}={value!r} must be {expected}")
    return to(value)
