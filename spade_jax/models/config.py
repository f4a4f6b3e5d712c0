"""Shapes of the decoder-only transformer, and the presets that people train."""

import dataclasses
from collections.abc import Mapping

ATTENTION = ("auto", "xla", "splash", "cudnn")  # spade_jax/models/packed.py
REMAT = ("none", "full", "dots")
EXPERTS = ("auto", "dense", "ragged", "gmm")  # spade_jax/models/moe.py


class ModelError(ValueError):
    """A model setting is impossible; the message names it and what was expected."""


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """One decoder-only transformer: RMSNorm, RoPE, grouped-query attention, SwiGLU.

    Attributes:
        vocab_size: rows of the embedding.
        d_model: width of the residual stream.
        num_layers: blocks, run by one scan.
        num_heads: query heads; a multiple of `num_kv_heads`.
        num_kv_heads: key and value heads.
        head_dim: width of one head; need not be d_model / num_heads.
        d_ff: hidden width of the dense SwiGLU (unused when `num_experts` > 0).
        rope_theta: base of the rotary frequencies. Differs by release: take it from the checkpoint.
        norm_eps: epsilon of every RMSNorm.
        qk_norm: RMSNorm per head on queries and keys, before the rotation (Qwen3).
        tied: the output head is the embedding, transposed.
        num_experts: 0 for a dense block, else the number of routed experts.
        experts_per_token: experts that each token visits.
        d_expert: hidden width of one expert.
        norm_topk: renormalise the chosen experts' router weights to sum to 1.
        attention: kernel for packed rows, of `ATTENTION`; "auto" goes by the mesh's platform.
        experts: kernel for routed experts, of `EXPERTS`, likewise.
        dtype: compute dtype; parameters are fp32.
        remat: what the backward pass recomputes, of `REMAT`: "full" keeps the input of each block
            only, "dots" also what its products with parameters gave, "none" everything.
        scan_unroll: layers per iteration of the layer scan. All of them is a third faster for a
            small model on CPU; 1 keeps compile times of deep models short.
    """

    vocab_size: int
    d_model: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    d_ff: int
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-6
    qk_norm: bool = False
    tied: bool = True
    num_experts: int = 0
    experts_per_token: int = 0
    d_expert: int = 0
    norm_topk: bool = True
    attention: str = "auto"
    experts: str = "auto"
    dtype: str = "float32"
    remat: str = "full"
    scan_unroll: int = 1

    def __post_init__(self):
        if self.num_heads % self.num_kv_heads:
            raise ModelError(
                f"num_heads={self.num_heads} must be a multiple of num_kv_heads={self.num_kv_heads}"
            )
        if self.head_dim % 2:
            raise ModelError(f"head_dim={self.head_dim} must be even: rotary pairs two halves")
        if self.num_experts and not 1 <= self.experts_per_token <= self.num_experts:
            raise ModelError(
                f"experts_per_token={self.experts_per_token} must lie in 1..{self.num_experts}"
            )
        for field, known in (("attention", ATTENTION), ("experts", EXPERTS), ("remat", REMAT)):
            if getattr(self, field) not in known:
                raise ModelError(
                    f"{field}={getattr(self, field)!r} must be one of {', '.join(known)}"
                )


# The releases of Instruct-2507 have the first ones' shapes and other rotary frequencies, for longer
# contexts (262,144 positions instead of 40,960).
_QWEN3_4B = ModelConfig(
    vocab_size=151_936, d_model=2560, num_layers=36, num_heads=32, num_kv_heads=8, head_dim=128,
    d_ff=9728, rope_theta=1_000_000.0, qk_norm=True, dtype="bfloat16",
)  # fmt: skip
_QWEN3_30B_A3B = ModelConfig(
    vocab_size=151_936, d_model=2048, num_layers=48, num_heads=32, num_kv_heads=4, head_dim=128,
    d_ff=6144, rope_theta=1_000_000.0, qk_norm=True, tied=False, num_experts=128,
    experts_per_token=8, d_expert=768, dtype="bfloat16",
)  # fmt: skip

# For new models and for how a public one is run: a checkpoint's own config always wins over these.
PRESETS: dict[str, ModelConfig] = {
    # 0.46 M parameters at a vocabulary of 1,024: the laptop model of configs/tiny.py.
    "tiny": ModelConfig(
        vocab_size=1024, d_model=128, num_layers=2, num_heads=4, num_kv_heads=4, head_dim=32,
        d_ff=256, remat="none", scan_unroll=2,
    ),
    "smollm2_135m": ModelConfig(
        vocab_size=49_152, d_model=576, num_layers=30, num_heads=9, num_kv_heads=3, head_dim=64,
        d_ff=1536, rope_theta=100_000.0, norm_eps=1e-5,
    ),
    "qwen3_4b": _QWEN3_4B,
    "qwen3_4b_2507": dataclasses.replace(_QWEN3_4B, rope_theta=5_000_000.0),
    "qwen3_8b": ModelConfig(
        vocab_size=151_936, d_model=4096, num_layers=36, num_heads=32, num_kv_heads=8, head_dim=128,
        d_ff=12_288, rope_theta=1_000_000.0, qk_norm=True, tied=False, dtype="bfloat16",
    ),
    "qwen3_30b_a3b": _QWEN3_30B_A3B,
    "qwen3_30b_a3b_2507": dataclasses.replace(_QWEN3_30B_A3B, rope_theta=10_000_000.0),
}  # fmt: skip


def preset(name: str, **overrides) -> ModelConfig:
    """A named preset with some fields replaced.

    Raises:
        ModelError: unknown preset or field, or an impossible value.
    """
    if name not in PRESETS:
        raise ModelError(f"model preset {name!r} is unknown; known: {', '.join(sorted(PRESETS))}")
    known = {field.name for field in dataclasses.fields(ModelConfig)}
    if unknown := set(overrides) - known:
        raise ModelError(f"model fields {sorted(unknown)} are unknown; known: {sorted(known)}")
    return dataclasses.replace(PRESETS[name], **overrides)


def from_config(section: Mapping, **more) -> ModelConfig:
    """The model that `config.model` describes: `preset`, its kernels and `overrides`, then `more`
    fields, as the vocabulary of a tokenizer."""
    kernels = {name: section[name] for name in ("attention", "experts")}
    return preset(section["preset"], **{**kernels, **dict(section["overrides"]), **more})


def of_recipe(config: Mapping) -> ModelConfig:
    """The model of a whole recipe; a public one is taken to have its preset's shapes."""
    own = {} if config["model"]["checkpoint"] else {"vocab_size": config["text"]["vocab_size"]}
    return from_config(config["model"], **own)
