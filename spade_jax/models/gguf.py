"""Llama-shaped GGUF files (llama.cpp), read as if they were Hugging Face checkpoints."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spade_jax import extras
from spade_jax.models.config import ModelError

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

ARCHITECTURES = {"llama": "LlamaForCausalLM"}
TENSOR_TYPES = (
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
    "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
)  # fmt: skip

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER_NAME = re.compile(r"blk\.(\d+)\.(\w+)\.weight")


class GgufFile:
    """Tensors under their Hugging Face names, in fp32; the file stays memory-mapped.

    Attributes:
        config: what `config.json` of the same model says, under the same keys.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads the header only. The path is local.

        Raises:
            ModelError: no GGUF file, a part of a split one, or a model that is not a plain Llama;
                the message names the architecture, setting, tensor or tensor type at fault. Or
                the package gguf is missing.
        """
        self._gguf = extras.require("gguf", "hf", ModelError)
        self._where = os.fspath(path)
        try:
            reader = self._gguf.GGUFReader(self._where)
        except (OSError, ValueError, KeyError, IndexError, OverflowError) as error:
            raise ModelError(f"{self._where!r} is not a readable GGUF file: {error}") from error
        architecture = self._value(reader, "general.architecture")
        if architecture not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise self._fault(f"architecture {architecture!r} is unsupported; supported: {known}")
        self._tensors = self._renamed(reader.tensors)
        self.config: Mapping[str, Any] = self._config(reader, architecture)

    def names(self) -> Iterable[str]:
        return self._tensors.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """Raises ModelError for a name that `names` lacks."""
        return tuple(int(size) for size in reversed(self._tensor(name).shape))

    def read(self, name: str) -> np.ndarray:
        """One tensor, fp32 `[out, in]` (or `[in]` of a norm), the caller's own.

        Raises:
            ModelError: a name that `names` lacks, or queries or keys that do not fit the heads.
        """
        tensor = self._tensor(name)
        values = self._gguf.dequantize(tensor.data, tensor.tensor_type)
        if name.endswith("q_proj.weight"):
            values = self._halves(name, values, self.config["num_attention_heads"])
        elif name.endswith("k_proj.weight"):
            values = self._halves(name, values, self.config["num_key_value_heads"])
        return np.require(values, np.float32, ["C_CONTIGUOUS", "WRITEABLE", "ENSUREARRAY"])

    def _halves(self, name: str, values: np.ndarray, heads: int) -> np.ndarray:
        """Undoes llama.cpp's order of a head's rows, which pairs row 2i with row 2i + 1 in the
        rotation, where Hugging Face pairs row i with row i + head_dim / 2."""
        rows = heads * self.config["head_dim"]
        if values.shape[0] != rows:
            raise self._fault(f"{name} has {values.shape[0]} rows, but its heads need {rows}")
        return values.reshape(heads, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)

    def _tensor(self, name: str) -> ReaderTensor:
        if name not in self._tensors:
            raise self._fault(f"no tensor is named {name!r}")
        return self._tensors[name]

    def _renamed(self, tensors: Iterable[ReaderTensor]) -> dict[str, ReaderTensor]:
        renamed, unknown = {}, []
        for tensor in tensors:
            layer = _LAYER_NAME.fullmatch(tensor.name)
            if tensor.name in _TOP:
                renamed[_TOP[tensor.name]] = tensor
            elif layer and layer[2] in _LAYER:
                renamed[f"model.layers.{layer[1]}.{_LAYER[layer[2]]}.weight"] = tensor
            else:
                unknown.append(tensor.name)
                continue
            if tensor.tensor_type.name not in TENSOR_TYPES:
                kind = tensor.tensor_type.name
                raise self._fault(f"tensor {tensor.name} has the unsupported type {kind}")
        if unknown:
            raise self._fault(f"tensors {', '.join(unknown[:8])} are unknown")
        return renamed

    def _config(self, reader: GGUFReader, architecture: str) -> dict[str, Any]:
        def value(key: str, default: Any = None) -> Any:
            return self._value(reader, f"{architecture}.{key}", default)

        width, heads = value("embedding_length"), value("attention.head_count")
        head_dim = value("attention.key_length", width // heads)
        self._refuse_others(reader, head_dim, value)
        config = {
            "architectures": [ARCHITECTURES[architecture]],
            "model_type": architecture,
            "hidden_size": width,
            "num_hidden_layers": value("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": value("attention.head_count_kv", heads),
            "head_dim": head_dim,
            "intermediate_size": value("feed_forward_length"),
            "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
            "rope_theta": value("rope.freq_base", 10_000.0),
            "rope_scaling": None,
            "vocab_size": self.shape("model.embed_tokens.weight")[0],
            "tie_word_embeddings": "lm_head.weight" not in self._tensors,
            "max_position_embeddings": value("context_length"),
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
        }
        for name in ("bos", "eos"):
            token = self._value(reader, f"tokenizer.ggml.{name}_token_id", -1)
            config |= {f"{name}_token_id": token} if token >= 0 else {}
        return config

    def _refuse_others(self, reader: GGUFReader, head_dim: int, value) -> None:
        """Settings that would change the result and that our transformer lacks."""
        for key, plain in (
            ("rope.scaling.type", "none"),
            ("rope.scale_linear", 1.0),
            ("rope.dimension_count", head_dim),
            ("attention.value_length", head_dim),
        ):
            if (found := value(key, plain)) != plain:
                raise self._fault(f"{key} = {found!r} is unsupported; only {plain!r} is")
        if (parts := self._value(reader, "split.count", 1)) > 1:
            raise self._fault(f"one of {parts} parts of a model; merge them with llama-gguf-split")

    def _value(self, reader: GGUFReader, key: str, default: Any = None) -> Any:
        """A scalar of the metadata; fp32 comes back as the shortest decimal that means it."""
        field = reader.get_field(key)
        if field is None:
            if default is None:
                raise self._fault(f"the metadata lack {key}")
            return default
        if field.types[0] == self._gguf.GGUFValueType.ARRAY:
            raise self._fault(f"{key} differs between layers, which is unsupported")
        if field.types[0] == self._gguf.GGUFValueType.FLOAT32:
            return float(str(np.float32(field.contents())))
        return field.contents()

    def _fault(self, what: str) -> ModelError:
        return ModelError(f"GGUF file {self._where!r}: {what}")
