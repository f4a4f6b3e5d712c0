"""Reads the tiny Hugging Face checkpoints in golden/, made with torch and transformers, fp32."""

import dataclasses
import json
import pathlib
import struct

import jax
import jax.numpy as jnp
import numpy as np

from spade_jax import models

FOLDER = pathlib.Path(__file__).with_name("golden")
NAMES = ("llama_tied", "qwen3_tied", "qwen3_untied", "qwen3_moe")


def tensors(path) -> dict[str, np.ndarray]:
    """The fp32 tensors of one safetensors file."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            out[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    return out


def load(name: str, **overrides) -> tuple[models.ModelConfig, dict, dict]:
    """`(config, params, golden arrays)` of one checkpoint."""
    folder = FOLDER / name
    raw = json.loads((folder / "config.json").read_text())
    config = models.ModelConfig(
        vocab_size=raw["vocab_size"],
        d_model=raw["hidden_size"],
        num_layers=raw["num_hidden_layers"],
        num_heads=raw["num_attention_heads"],
        num_kv_heads=raw["num_key_value_heads"],
        head_dim=raw["head_dim"],
        d_ff=raw["intermediate_size"],
        rope_theta=raw["rope_theta"],
        norm_eps=raw["rms_norm_eps"],
        qk_norm=raw["model_type"].startswith("qwen3"),
        tied=raw["tie_word_embeddings"],
        num_experts=raw.get("num_experts", 0),
        experts_per_token=raw.get("num_experts_per_tok", 0),
        d_expert=raw.get("moe_intermediate_size", 0),
        norm_topk=raw.get("norm_topk_prob", True),
    )
    weights = tensors(folder / "model.safetensors")
    golden = dict(np.load(folder / "golden.npz"))
    params = to_params(config, weights)
    params = jax.tree.map(jnp.asarray, params)
    return dataclasses.replace(config, **overrides), params, golden


def to_params(c: models.ModelConfig, weights: dict) -> dict:
    """Our parameter tree from Hugging Face names; layers are stacked, kernels transposed."""

    def stack(pattern, shape=None):
        rows = [weights[f"model.layers.{i}.{pattern}.weight"].T for i in range(c.num_layers)]
        return np.stack([row if shape is None else row.reshape(shape) for row in rows])

    def expert(part):
        return np.stack(
            [
                np.stack(
                    [
                        weights[f"model.layers.{i}.mlp.experts.{e}.{part}_proj.weight"].T
                        for e in range(c.num_experts)
                    ]
                )
                for i in range(c.num_layers)
            ]
        )

    queries, keys = ((c.d_model, heads, c.head_dim) for heads in (c.num_heads, c.num_kv_heads))
    attention = {
        "q": {"kernel": stack("self_attn.q_proj", queries)},
        "k": {"kernel": stack("self_attn.k_proj", keys)},
        "v": {"kernel": stack("self_attn.v_proj", keys)},
        "out": {"kernel": stack("self_attn.o_proj", (c.num_heads, c.head_dim, c.d_model))},
    }
    if c.qk_norm:
        attention["q_norm"] = {"scale": stack("self_attn.q_norm")}
        attention["k_norm"] = {"scale": stack("self_attn.k_norm")}
    if c.num_experts:
        mlp = {"router": stack("mlp.gate")} | {p: expert(p) for p in ("gate", "up", "down")}
    else:
        mlp = {p: {"kernel": stack(f"mlp.{p}_proj")} for p in ("gate", "up", "down")}
    params = {
        "embedding": weights["model.embed_tokens.weight"],
        "final_norm": {"scale": weights["model.norm.weight"]},
        "blocks": {
            "attention": attention,
            "attention_norm": {"scale": stack("input_layernorm")},
            "mlp": mlp,
            "mlp_norm": {"scale": stack("post_attention_layernorm")},
        },
    }
    if not c.tied:
        params["head"] = weights["lm_head.weight"].T
    return params
