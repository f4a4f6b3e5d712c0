"""This project's learner as `benchmarks.learner_workload` asks for a trainer."""

import jax
import numpy as np

from benchmarks import learner_workload as workload
from spade_jax import models, parallel
from spade_jax.rl import Learner, LossSettings, OptimizerSettings, pack, token_weights
from spade_jax.rl.packing import first_fit
from spade_jax.rollout import Trajectory

CHUNK = 1024  # positions of a chunk of log-probs


class PackedTrainer:
    """The update of `train.py`: micro-batches of packed rows are summed, then applied."""

    def __init__(self, shape, batch: workload.Batch, micro: int, chunk: int = CHUNK, **changes):
        self.config = model_config(shape, **changes)
        self.learner = Learner(
            self.config, parallel.make_mesh({}, jax.devices()[:1]), "policy",
            LossSettings(importance_cap=workload.CAP),
            OptimizerSettings(
                workload.LEARNING_RATE, workload.B1, workload.B2, workload.WEIGHT_DECAY,
                workload.GRAD_CLIP,
            ),
            chunk,
        )  # fmt: skip
        params = place(workload.draw_weights(shape))
        self.num_params = models.num_params(params)
        self.state = self.learner.adopt(params)
        self._trajectories, self._advantages = trajectories(batch), batch.advantages
        # The recipes' way: a row holds the longest trajectory that there can be.
        self.length = sum(batch.part.most) - 1
        whole = len(first_fit([length - 1 for length in batch.lengths], self.length))
        self.rows = -(-whole // micro)
        batches = list(self.batches())
        self.trained = sum(int(np.count_nonzero(b.weights)) for b in batches)
        self.padding = sum(int((b.segment_ids == 0).sum()) for b in batches)
        positions = self.rows * self.length
        chunks = -(-positions // chunk)  # as even as can be: see `rl.logprobs`
        logits = chunks * -(-positions // chunks)
        self.flops = len(batches) * workload.computed_flops(
            shape, self.rows, self.length, self.config.remat == "full", logits
        )

    def batches(self):
        weights = token_weights(self._trajectories, "trajectory")
        return pack(self._trajectories, self._advantages, weights, self.rows, self.length)

    def step(self) -> tuple[float, float]:
        total, losses = None, []
        for batch in self.batches():
            gradients, sums = self.learner.gradients(self.state.params, batch, 1.0)
            total = self.learner.add(total, gradients)
            losses.append(sums["loss"])
        self.state, statistics = self.learner.apply(self.state, total)
        losses, norm = jax.device_get((losses, statistics["grad_norm"]))
        jax.block_until_ready(self.state)
        return float(sum(losses)), float(norm)


def model_config(shape, **changes) -> models.ModelConfig:
    """As the tiny recipe runs a small model on CPU, unless `changes` say otherwise."""
    fields = {"remat": "none", "scan_unroll": shape.num_layers, **changes}
    return models.ModelConfig(
        vocab_size=shape.vocab, d_model=shape.embed_dim, num_layers=shape.num_layers,
        num_heads=shape.num_heads, num_kv_heads=shape.num_kv_heads, head_dim=shape.head_dim,
        d_ff=shape.ffn_dim, rope_theta=1e6, qk_norm=True, tied=False, dtype=shape.dtype, **fields,
    )  # fmt: skip


def place(weights: dict[str, np.ndarray]) -> models.Params:
    def kernels(*names: str) -> dict:
        return {name: {"kernel": weights[name]} for name in names}

    def scales(*names: str) -> dict:
        return {name: {"scale": weights[name]} for name in names}

    attention = kernels("q", "k", "v", "out") | scales("q_norm", "k_norm")
    blocks = {"attention": attention, "mlp": kernels("gate", "up", "down")}
    ends = {"embedding": weights["embedding"], "head": weights["head"], **scales("final_norm")}
    return ends | {"blocks": blocks | scales("attention_norm", "mlp_norm")}


def trajectories(batch: workload.Batch) -> list[Trajectory]:
    made = []
    for prompt, reply in zip(batch.prompts, batch.replies, strict=True):
        row = Trajectory()
        row.append_context(prompt)
        row.append_sampled(reply, [workload.SAMPLED_LOGPROB] * len(reply), 0)
        made.append(row)
    return made


def make_trainer(shape, batch: workload.Batch, micro: int) -> PackedTrainer:
    return PackedTrainer(shape, batch, micro)
