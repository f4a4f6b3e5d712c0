"""google-tunix's own sampler as `benchmarks.sampler_workload` asks for an engine.

It decodes one static batch at a time, left-padded, and reads whole histories anew. It runs in an
environment of its own (tunix.txt); nothing else imports this file.
"""

import jax
from flax import nnx
from tunix.generate.sampler import CacheConfig, Sampler
from tunix.models.qwen3.model import ModelConfig, Qwen3

from benchmarks.sampler_workload import EOS


class SpelledIds:
    """A tokenizer whose text is the ids in decimal, so that text costs next to nothing."""

    def encode(self, text: str, **_) -> list[int]:
        return list(map(int, text.split()))

    def decode(self, ids, **_) -> str:
        return " ".join(map(str, ids))

    def pad_id(self) -> int:
        return 0

    def bos_id(self) -> int:
        return 1

    def eos_id(self) -> int:
        return EOS


class TunixEngine:
    def __init__(self, shape, max_len: int, batch: int):
        config = ModelConfig(
            num_layers=shape.num_layers, vocab_size=shape.vocab, embed_dim=shape.embed_dim,
            hidden_dim=shape.ffn_dim, num_heads=shape.num_heads, head_dim=shape.head_dim,
            num_kv_heads=shape.num_kv_heads, rope_theta=1_000_000, norm_eps=1e-6,
            use_tied_embedding=False, dtype=shape.dtype, param_dtype=shape.dtype,
        )  # fmt: skip
        # Its sharding constraints name these two axes.
        self._mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), devices=jax.devices()[:1])
        cache = CacheConfig(max_len, shape.num_layers, shape.num_kv_heads, shape.head_dim)
        with self._mesh:
            model = Qwen3(config, rngs=nnx.Rngs(0))
            self._sampler = Sampler(model, SpelledIds(), cache)
        self.num_params = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
        self.slot_steps, self._batch = 0, batch

    def generate(self, prompts, max_new, stop_ids, seed, session=None) -> list[list[int]]:
        """The stop ids of the first call hold for all: they are compiled in."""
        replies = []
        for start in range(0, len(prompts), self._batch):
            batch = prompts[start : start + self._batch]
            replies += self._static_batch(batch, max_new, stop_ids, seed + start)
        return replies

    def _static_batch(self, prompts, max_new, stop_ids, seed) -> list[list[int]]:
        longest = max(map(len, prompts)) + 1  # it puts one id in front
        with self._mesh:
            output = self._sampler(
                [" ".join(map(str, prompt)) for prompt in prompts],
                max_generation_steps=max_new,
                max_prompt_length=1 << (longest - 1).bit_length(),
                temperature=1.0,
                top_p=1.0,
                eos_tokens=stop_ids,
                seed=seed,
                return_logprobs=True,
            )
        replies = [tokens.tolist() for tokens in output.tokens]
        # It samples the stop id but does not return it: any of them stands in, so that both engines
        # are paid for the same tokens.
        replies = [r if len(r) == max_new else [*r, stop_ids[0]] for r in replies]
        self.slot_steps += len(prompts) * max(map(len, replies))
        return replies


def make_engine(shape, max_len: int, batch: int) -> TunixEngine:
    return TunixEngine(shape, max_len, batch)
