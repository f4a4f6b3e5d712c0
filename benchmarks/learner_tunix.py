"""google-tunix's own GRPO train step as `benchmarks.learner_workload` asks for a trainer.

One trajectory a row: prompts padded on the left, replies on the right, to the longest that there
can be, since shapes are static. Its packed rows need its TPU kernel: elsewhere they would attend to
everything in the row. Several micro-batches are its gradient accumulation. It runs in an
environment of its own (tunix.txt); nothing else imports this file.
"""

import jax
import numpy as np
import optax
from flax import nnx
from tunix.models.qwen3.model import ModelConfig, Qwen3
from tunix.rl import algo_core
from tunix.rl.common import TrainExample
from tunix.rl.grpo.grpo_learner import GRPOConfig
from tunix.rl.trainer import Trainer
from tunix.sft.peft_trainer import TrainingConfig

from benchmarks import learner_workload as workload

PAD, EOS = 0, 2
BLOCK = {
    "q": "attn.q_proj.w", "k": "attn.k_proj.w", "v": "attn.v_proj.w", "out": "attn.o_proj.w",
    "q_norm": "attn.q_norm.w", "k_norm": "attn.k_norm.w", "attention_norm": "input_layernorm.w",
    "mlp_norm": "post_attention_layernorm.w", "gate": "mlp.gate_proj.kernel",
    "up": "mlp.up_proj.kernel", "down": "mlp.down_proj.kernel",
}  # fmt: skip
ENDS = {
    "embedding": "embedder.input_embedding", "head": "lm_head.w", "final_norm": "final_norm.w",
}  # fmt: skip


class PaddedTrainer:
    flops = None  # its own affair

    def __init__(self, shape, batch: workload.Batch, micro: int):
        # Its sharding constraints name these two axes.
        self._mesh = jax.make_mesh(
            (1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2,
            devices=jax.devices()[:1],
        )  # fmt: skip
        config = ModelConfig(
            num_layers=shape.num_layers, vocab_size=shape.vocab, embed_dim=shape.embed_dim,
            hidden_dim=shape.ffn_dim, num_heads=shape.num_heads, head_dim=shape.head_dim,
            num_kv_heads=shape.num_kv_heads, rope_theta=1_000_000, norm_eps=1e-6,
            use_tied_embedding=False, dtype=shape.dtype, param_dtype="float32",
        )  # fmt: skip
        optimizer = optax.chain(
            optax.clip_by_global_norm(workload.GRAD_CLIP),
            optax.adamw(
                workload.LEARNING_RATE, workload.B1, workload.B2,
                weight_decay=workload.WEIGHT_DECAY,
            ),
        )  # fmt: skip
        training = TrainingConfig(
            eval_every_n_steps=1, gradient_accumulation_steps=None if micro == 1 else micro
        )
        algorithm = GRPOConfig(beta=0.0, epsilon=0.2)
        algorithm.epsilon_high, algorithm.temperature = 0.28, 1.0  # as its learner sets them
        with self._mesh:
            model = Qwen3(config, rngs=nnx.Rngs(0))
            place(model, workload.draw_weights(shape))
            trainer = Trainer(model, optimizer, training, dict)
            trainer.with_loss_fn(
                lambda model, example: algo_core.grpo_loss_fn(model, example, algorithm, PAD, EOS),
                has_aux=True,
            )
            trainer.with_gen_model_input_fn(lambda example: {"example": example})
            self._step, _ = trainer.jit_train_and_eval_step(cache_nnx_graph=True)
        self._model, self._trainer = model, trainer
        self.num_params = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
        self._examples = examples(batch, micro)
        self.trained = sum(int(e.completion_mask.sum()) for e in self._examples)
        computed = sum(e.prompt_ids.size + e.completion_ids.size for e in self._examples)
        self.padding = computed - sum(batch.lengths)

    def step(self) -> tuple[float, float]:
        """The norm is the first micro-batch's: that of their sum is not to be had."""
        with self._mesh:
            answers = [self._step(jax.device_put(example)) for example in self._examples]
        losses, norms = jax.device_get(([a[0] for a in answers], [a[2] for a in answers]))
        jax.block_until_ready((nnx.state(self._model), nnx.state(self._trainer.optimizer)))
        return float(np.mean(losses)), float(norms[0])


def place(model: Qwen3, weights: dict[str, np.ndarray]) -> None:
    owners = [(model, ENDS, lambda leaf: leaf)]
    owners += [(block, BLOCK, lambda leaf, i=i: leaf[i]) for i, block in enumerate(model.layers)]
    for owner, names, pick in owners:
        for name, path in names.items():
            leaf, *folders = reversed(path.split("."))
            holder = owner
            for folder in reversed(folders):
                holder = getattr(holder, folder)
            variable, value = getattr(holder, leaf), pick(weights[name])
            if variable.value.shape != value.shape:
                raise ValueError(f"{name}: {value.shape} for {path} of {variable.value.shape}")
            variable.value = jax.numpy.asarray(value)


def examples(batch: workload.Batch, micro: int) -> list[TrainExample]:
    """Micro-batches of rows of one size, in the order of the batch."""
    longest_prompt, longest_reply = batch.part.most
    prompts = np.full((batch.part.count, longest_prompt), PAD, np.int32)
    replies = np.full((batch.part.count, longest_reply), PAD, np.int32)
    for row, (prompt, reply) in enumerate(zip(batch.prompts, batch.replies, strict=True)):
        prompts[row, longest_prompt - len(prompt) :] = prompt
        replies[row, : len(reply)] = reply
    mask = (replies != PAD).astype(np.int32)
    arrays = {
        "prompt_ids": prompts, "prompt_mask": (prompts != PAD).astype(np.int32),
        "completion_ids": replies, "completion_mask": mask,
        "advantages": np.asarray(batch.advantages, np.float32),
        "sampler_is_weights": workload.CAP * mask.astype(np.float32),
    }  # fmt: skip
    cut = {name: np.split(array, micro) for name, array in arrays.items()}
    return [
        TrainExample(
            **{name: parts[i] for name, parts in cut.items()},
            ref_per_token_logps=None, old_per_token_logps=None,
        )
        for i in range(micro)
    ]  # fmt: skip


def make_trainer(shape, batch: workload.Batch, micro: int) -> PaddedTrainer:
    return PaddedTrainer(shape, batch, micro)
