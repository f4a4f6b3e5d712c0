"""How fast the machine could sample: measured peaks, and what each round needs at the least.

Two bounds. The roof counts operations and bytes against the best rates of the machine, a big matrix
product and a big copy. The floor is the time of the model's own matrix products, one after another,
at the best of the measured shapes, and nothing else.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.sampler_workload import ModelShape, Reply

BYTES = {"float32": 4, "bfloat16": 2}  # of one number
PREFILL_ROWS = 1024
SQUARE = 1024
TRIAD = 2**26  # fp32 numbers of each of its two arrays: 256 MiB
SECONDS = 0.5  # least time per measurement


@dataclasses.dataclass(frozen=True)
class Peaks:
    """Attributes:
    flops: per second, in the best of the matrix products measured.
    bandwidth: bytes per second, in `a = b + s * a` over arrays beyond most caches.
    step: by rows, seconds of the model's matrix products for so many tokens, head included.
    """

    flops: float
    bandwidth: float
    step: dict[int, float]


def block_params(shape: ModelShape) -> int:
    """Weights of all blocks' matrices."""
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    return shape.num_layers * shape.embed_dim * (2 * queries + 2 * keys + 3 * shape.ffn_dim)


def head_params(shape: ModelShape) -> int:
    return shape.embed_dim * shape.vocab


def roof(shape: ModelShape, calls: Sequence[Sequence[Reply]], slots: int, peaks: Peaks) -> float:
    """Least seconds of one round by operations and bytes, prefill and decode apart.

    Known tokens cost nothing, keys and values are read once per sampled token, weights once per
    call's prefill and once per decode step.
    """
    seconds = 0.0
    for call in calls:
        for flops, moved in (_prefill(shape, call), _decode(shape, call, slots)):
            seconds += max(flops / peaks.flops, moved / peaks.bandwidth)
    return seconds


def floor(calls: Sequence[Sequence[Reply]], slots: int, peaks: Peaks) -> float:
    """Seconds of one round's matrix products alone; a few of the prefill's are by the head. A
    decode step is charged at the cheapest measured number of rows that the slots allow."""
    sampled = min(time / rows for rows, time in peaks.step.items() if rows <= slots)
    seconds = 0.0
    for call in calls:
        prefill = sum(reply.prompt - 1 - reply.known for reply in call)
        seconds += prefill / PREFILL_ROWS * peaks.step[PREFILL_ROWS]
        seconds += sum(reply.sampled for reply in call) * sampled
    return seconds


def decode_steps(call: Sequence[Reply], slots: int) -> int:
    sampled = [reply.sampled for reply in call]
    return max(max(sampled), -(-sum(sampled) // slots))


def _prefill(shape: ModelShape, call: Sequence[Reply]) -> tuple[float, float]:
    """Operations and bytes. A prompt's last token belongs to the first decode step."""
    tokens = sum(reply.prompt - 1 - reply.known for reply in call)
    seen = sum(pairs(reply.known, reply.prompt - 1) for reply in call)
    flops = 2 * block_params(shape) * tokens + attention_flops(shape) * seen
    moved = block_params(shape) * (tokens > 0) + _kv_numbers(shape) * tokens
    return flops, BYTES[shape.dtype] * moved


def _decode(shape: ModelShape, call: Sequence[Reply], slots: int) -> tuple[float, float]:
    tokens = sum(reply.sampled for reply in call)
    seen = sum(pairs(reply.prompt - 1, reply.prompt + reply.sampled - 1) for reply in call)
    weights = block_params(shape) + head_params(shape)
    flops = 2 * weights * tokens + attention_flops(shape) * seen
    moved = weights * decode_steps(call, slots) + _kv_numbers(shape) * seen
    return flops, BYTES[shape.dtype] * moved


def pairs(start: int, end: int) -> int:
    """Sum over the positions start..end-1 of the tokens that each attends to, itself included."""
    return (end * (end + 1) - start * (start + 1)) // 2


def attention_flops(shape: ModelShape) -> int:
    """Of one query and one key: a score and a weighted sum in every head and layer."""
    return 4 * shape.num_layers * shape.num_heads * shape.head_dim


def _kv_numbers(shape: ModelShape) -> int:
    return 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim


def measure(shape: ModelShape, rows: Sequence[int]) -> Peaks:
    """Peaks of this process's first device. Meant for an otherwise idle machine."""
    import jax
    import jax.numpy as jnp

    step, weights = jax.jit(_products), jax.device_put(_weights(shape))
    times = {
        count: best_seconds(step, jnp.full((count, shape.embed_dim), 1e-3), weights)
        for count in sorted({*rows, PREFILL_ROWS})
    }
    operations = 2 * (block_params(shape) + head_params(shape))
    rates = [operations * count / seconds for count, seconds in times.items()]
    return Peaks(max(matmul_rate(SQUARE, "float32"), *rates), bandwidth(TRIAD), times)


def matmul_rate(size: int, dtype: str) -> float:
    """Operations per second of one square matrix product. The numbers are random: a GPU is faster,
    because cooler, where they are all alike."""
    import jax

    square = jax.random.normal(jax.random.key(0), (size, size), dtype)
    return 2 * size**3 / best_seconds(jax.jit(lambda a: a @ a), square)


def bandwidth(numbers: int) -> float:
    """Bytes per second of `a = b + s * a` over fp32 arrays of so many numbers."""
    import jax
    import jax.numpy as jnp

    b, a = jnp.zeros(numbers), jnp.ones(numbers)
    # In place: fresh memory would be paid page by page.
    triad = jax.jit(lambda a, b: b + 0.5 * a, donate_argnums=0)
    times = []
    for _ in range(8):
        began = time.perf_counter()
        a = triad(a, b).block_until_ready()
        times.append(time.perf_counter() - began)
    return 3 * a.nbytes / min(times)


def _weights(shape: ModelShape) -> tuple[list[dict], np.ndarray]:
    d, rng = shape.embed_dim, np.random.default_rng(0)
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim

    def matrix(rows: int, columns: int) -> np.ndarray:
        return rng.normal(0, rows**-0.5, (rows, columns)).astype(np.float32)

    layers = [
        {
            "q": matrix(d, queries), "k": matrix(d, keys), "v": matrix(d, keys),
            "out": matrix(queries, d), "gate": matrix(d, shape.ffn_dim),
            "up": matrix(d, shape.ffn_dim), "down": matrix(shape.ffn_dim, d),
        }
        for _ in range(shape.num_layers)
    ]  # fmt: skip
    return layers, matrix(d, shape.vocab)


def _products(x, weights):
    """Every matrix product of the model, chained so that none can be left out."""
    import jax.numpy as jnp

    layers, head = weights
    for w in layers:
        kv = jnp.concatenate([x @ w["k"], x @ w["v"]], axis=1).mean(axis=1, keepdims=True)
        x = (x @ w["q"] + kv) @ w["out"]
        x = (x @ w["gate"] + x @ w["up"]) @ w["down"]
    return x @ head


def best_seconds(function: Callable, *arguments, least: float = SECONDS) -> float:
    """Least seconds of one call, after one to compile: of three, or of more in `least` seconds."""
    import jax

    jax.block_until_ready(function(*arguments))
    times = []
    while sum(times) < least or len(times) < 3:
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - began)
    return min(times)
