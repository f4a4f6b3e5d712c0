"""One table between Hugging Face's tensors and our parameter tree, read in both directions."""

import dataclasses
import functools
import math
import re
from collections.abc import Iterator

import numpy as np

from spade_jax.models.config import ModelConfig

# Buffers that old checkpoints carry; transformers ignores them too.
IGNORED = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
LAYER = "model.layers.{layer}."


@dataclasses.dataclass(frozen=True)
class Row:
    """One kind of tensor: its name there, its place here.

    Attributes:
        name: Hugging Face's, with `{layer}` and `{expert}` where there is one tensor for each.
        path: of the leaf in our tree, which stacks the tensors of all layers and experts.
        stack: sizes of the leaf's leading axes that `name` enumerates.
        shape: what one tensor is here, without `stack`.
        inputs: how many axes of `shape` a matrix contracts; Hugging Face stores a matrix as
            [out, in]. 0: not a matrix, stored as it is.
        batch: leading axes of `shape` that both sides keep: experts fused into one tensor.
        half: which half of the stored rows this is: gate and up fused into one tensor.
    """

    name: str
    path: tuple[str, ...]
    shape: tuple[int, ...]
    stack: tuple[int, ...] = ()
    inputs: int = 0
    batch: int = 0
    half: int | None = None

    @property
    def hf_shape(self) -> tuple[int, ...]:
        if not self.inputs:
            return self.shape
        split = self.batch + self.inputs
        rows = math.prod(self.shape[split:]) * (1 if self.half is None else 2)
        return (*self.shape[: self.batch], rows, math.prod(self.shape[self.batch : split]))

    def tensors(self) -> Iterator[tuple[tuple[int, ...], str]]:
        """`(index into the leaf, name)` of every tensor."""
        for index in np.ndindex(*self.stack):
            yield index, self.name.format(**dict(zip(("layer", "expert"), index, strict=False)))

    def from_hf(self, tensor: np.ndarray) -> np.ndarray:
        """A view of a tensor of `hf_shape` as `shape` has it."""
        if not self.inputs:
            return tensor
        if self.half is not None:
            tensor = np.split(tensor, 2, axis=-2)[self.half]
        return tensor.swapaxes(-1, -2).reshape(self.shape)

    def to_hf(self, tensor: np.ndarray) -> np.ndarray:
        """The inverse of `from_hf`, contiguous; not for a `half`."""
        if not self.inputs:
            return np.ascontiguousarray(tensor)
        *batch, rows, columns = self.hf_shape
        return np.ascontiguousarray(tensor.reshape(*batch, columns, rows).swapaxes(-1, -2))


def table(config: ModelConfig, fused: bool = False) -> list[Row]:
    """Every tensor of a model.

    Args:
        fused: a layer's experts are two tensors, `gate_up_proj` and `down_proj` (transformers 5).
    """
    c, row = config, functools.partial(_block_row, config)
    queries, keys = (c.d_model, c.num_heads, c.head_dim), (c.d_model, c.num_kv_heads, c.head_dim)
    output = (c.num_heads, c.head_dim, c.d_model)
    rows = [
        Row(EMBEDDING, ("embedding",), (c.vocab_size, c.d_model)),
        row("input_layernorm.weight", "attention_norm/scale", (c.d_model,)),
        row("self_attn.q_proj.weight", "attention/q/kernel", queries, inputs=1),
        row("self_attn.k_proj.weight", "attention/k/kernel", keys, inputs=1),
        row("self_attn.v_proj.weight", "attention/v/kernel", keys, inputs=1),
        row("self_attn.o_proj.weight", "attention/out/kernel", output, inputs=2),
        row("post_attention_layernorm.weight", "mlp_norm/scale", (c.d_model,)),
        *(_experts(c, fused) if c.num_experts else _feed_forward(c)),
        Row("model.norm.weight", ("final_norm", "scale"), (c.d_model,)),
    ]
    if c.qk_norm:
        rows.append(row("self_attn.q_norm.weight", "attention/q_norm/scale", (c.head_dim,)))
        rows.append(row("self_attn.k_norm.weight", "attention/k_norm/scale", (c.head_dim,)))
    if not c.tied:
        rows.append(Row(HEAD, ("head",), (c.d_model, c.vocab_size), inputs=1))
    return rows


def _block_row(c: ModelConfig, name: str, path: str, shape: tuple[int, ...], **layout) -> Row:
    """A row of a block, stacked over the layers and, where the name says so, the experts."""
    stack = (c.num_layers, c.num_experts) if "{expert}" in name else (c.num_layers,)
    return Row(LAYER + name, ("blocks", *path.split("/")), shape, stack, **layout)


def _feed_forward(c: ModelConfig) -> list[Row]:
    row, up = functools.partial(_block_row, c), (c.d_model, c.d_ff)
    return [
        row("mlp.gate_proj.weight", "mlp/gate/kernel", up, inputs=1),
        row("mlp.up_proj.weight", "mlp/up/kernel", up, inputs=1),
        row("mlp.down_proj.weight", "mlp/down/kernel", up[::-1], inputs=1),
    ]


def _experts(c: ModelConfig, fused: bool) -> list[Row]:
    row, up = functools.partial(_block_row, c), (c.d_model, c.d_expert)
    router = row("mlp.gate.weight", "mlp/router", (c.d_model, c.num_experts), inputs=1)
    if not fused:
        name = "mlp.experts.{expert}."
        return [
            router,
            row(name + "gate_proj.weight", "mlp/gate", up, inputs=1),
            row(name + "up_proj.weight", "mlp/up", up, inputs=1),
            row(name + "down_proj.weight", "mlp/down", up[::-1], inputs=1),
        ]
    row, up = functools.partial(row, batch=1, inputs=1), (c.num_experts, *up)
    return [
        router,
        row("mlp.experts.gate_up_proj", "mlp/gate", up, half=0),
        row("mlp.experts.gate_up_proj", "mlp/up", up, half=1),
        row("mlp.experts.down_proj", "mlp/down", (c.num_experts, c.d_expert, c.d_model)),
    ]
