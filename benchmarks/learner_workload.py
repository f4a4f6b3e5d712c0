"""What `benchmarks.learner` trains on, part by part, from which weights, and what that costs.

A trainer is a module with `make_trainer(shape, batch, micro)`; what that returns has

    step()        one update on the whole batch, from host arrays to new weights: its loss and the
                  norm of its gradient
    num_params    parameters of its model
    trained       tokens that its loss counts, asked of what it gives its program
    padding       positions of an update that its program computes for no trajectory
    flops         operations of its program in one update, or None

`micro` is the number of micro-batches that the batch is cut into. All trainers begin with the
weights of `draw_weights`; an update is AdamW's behind a clip of the gradient's norm.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from benchmarks.sampler_roofline import attention_flops, block_params, head_params, pairs
from benchmarks.sampler_workload import ModelShape

FIRST_WORD = 10  # smaller ids stand for padding and the like
LEARNING_RATE, B1, B2, WEIGHT_DECAY, GRAD_CLIP = 1e-6, 0.9, 0.98, 0.1, 1.0
CAP = 2.0  # of importance weights
SAMPLED_LOGPROB = -30.0  # so low that every importance weight is at its cap, in each trainer


@dataclasses.dataclass(frozen=True)
class Part:
    """One kind of batch.

    Attributes:
        count: trajectories.
        prompt: tokens of each prompt, up to a quarter more or less where the part is ragged.
        reply: most tokens of a reply, of which all are trained; all replies have as many unless
            the part is ragged: then their lengths are geometric with a mean of about a third.
    """

    name: str
    count: int = 32
    prompt: int = 64
    reply: int = 128
    ragged: bool = True

    @property
    def most(self) -> tuple[int, int]:
        """Tokens of the longest possible prompt and reply."""
        return (5 * self.prompt // 4 if self.ragged else self.prompt), self.reply


PARTS = {part.name: part for part in (Part("ragged"), Part("equal", reply=64, ragged=False))}


@dataclasses.dataclass(frozen=True)
class Batch:
    """Trajectories: token ids of prompts and replies, and an advantage of each."""

    part: Part
    prompts: list[list[int]]
    replies: list[list[int]]
    advantages: list[float]

    @property
    def lengths(self) -> list[int]:
        return [len(p) + len(r) for p, r in zip(self.prompts, self.replies, strict=True)]

    @property
    def trained(self) -> int:
        return sum(map(len, self.replies))


def draw_batch(part: Part, vocab: int, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    prompts, replies = np.full(part.count, part.prompt), np.full(part.count, part.reply)
    if part.ragged:
        prompts = rng.integers(3 * part.prompt // 4, part.most[0] + 1, part.count)
        replies = np.minimum(rng.geometric(3 / part.reply, part.count), part.reply)

    def words(sizes) -> list[list[int]]:
        return [rng.integers(FIRST_WORD, vocab, size).tolist() for size in sizes]

    return Batch(part, words(prompts), words(replies), rng.normal(size=part.count).tolist())


def draw_weights(shape: ModelShape) -> dict[str, np.ndarray]:
    """fp32 weights by name; those of blocks are stacked over the layers on the first axis."""
    rng, d, layers = np.random.default_rng(0), shape.embed_dim, shape.num_layers
    heads, keys, width = shape.num_heads, shape.num_kv_heads, shape.head_dim

    def matrix(*axes: int, fan_in: int) -> np.ndarray:
        return rng.normal(0, fan_in**-0.5, axes).astype(np.float32)

    def scale(*axes: int) -> np.ndarray:
        return rng.uniform(0.5, 1.5, axes).astype(np.float32)

    return {
        "embedding": matrix(shape.vocab, d, fan_in=d), "head": matrix(d, shape.vocab, fan_in=d),
        "q": matrix(layers, d, heads, width, fan_in=d),
        "k": matrix(layers, d, keys, width, fan_in=d),
        "v": matrix(layers, d, keys, width, fan_in=d),
        "out": matrix(layers, heads, width, d, fan_in=heads * width),
        "gate": matrix(layers, d, shape.ffn_dim, fan_in=d),
        "up": matrix(layers, d, shape.ffn_dim, fan_in=d),
        "down": matrix(layers, shape.ffn_dim, d, fan_in=shape.ffn_dim),
        "q_norm": scale(layers, width), "k_norm": scale(layers, width),
        "attention_norm": scale(layers, d), "mlp_norm": scale(layers, d), "final_norm": scale(d),
    }  # fmt: skip


def useful_flops(shape: ModelShape, lengths: Sequence[int]) -> float:
    """Operations of one update that no implementation can do without: six for each weight of a
    matrix and each token, and attention to what stands before it in its own trajectory."""
    tokens, looks = sum(n - 1 for n in lengths), sum(pairs(0, n - 1) for n in lengths)
    weights = block_params(shape) + head_params(shape)
    return 6 * weights * tokens + 3 * attention_flops(shape) * looks


def computed_flops(shape: ModelShape, rows: int, length: int, remat: bool, logits: int) -> float:
    """Operations of our program for one micro-batch: padding, attention to all of a row, and what
    is computed again in the backward pass: the head always, and with `remat` blocks but for their
    last product, on which no gradient depends.

    Args:
        logits: positions for which there are any, those that fill the last chunk included.
    """
    positions = rows * length
    blocks = 2 * block_params(shape) * positions + attention_flops(shape) * rows * length**2
    last = 2 * shape.num_layers * shape.embed_dim * shape.ffn_dim * positions
    again = blocks - last if remat else 0
    return 3 * blocks + again + 8 * head_params(shape) * logits
