"""The optimizers: AdamW (the paper's), or Muon for the blocks' matrices beside it."""

import dataclasses

import jax
import optax
from optax.contrib import MuonDimensionNumbers, muon

from spade_jax import models


@dataclasses.dataclass(frozen=True)
class OptimizerSettings:
    """AdamW; `decay_steps` > 0 anneals the rate by a cosine to `final_fraction` of it.

    `matrix_rate` > 0 trains the matrices of the blocks by Muon (Jordan et al. 2024: momentum of
    0.95 whose singular values are all set to about one, times sqrt(max(1, outputs / inputs))) at
    that rate, and the rest by Nesterov-Adam, on the same schedule. A from-scratch warm start gets
    further in the same time that way (docs/measurements.md).
    """

    learning_rate: float
    b1: float = 0.9
    b2: float = 0.98
    weight_decay: float = 0.1
    grad_clip: float = 1.0
    warmup_steps: int = 0
    decay_steps: int = 0
    final_fraction: float = 0.1
    matrix_rate: float = 0.0

    def build(self) -> optax.GradientTransformation:
        return optax.chain(optax.clip_by_global_norm(self.grad_clip), self._update())

    def _update(self) -> optax.GradientTransformation:
        rate = self._schedule(self.learning_rate)
        if not self.matrix_rate:
            return optax.adamw(rate, self.b1, self.b2, weight_decay=self.weight_decay)
        return muon(
            self._schedule(self.matrix_rate), weight_decay=self.weight_decay, adam_b1=self.b1,
            adam_b2=self.b2, adam_weight_decay=self.weight_decay, adam_learning_rate=rate,
            muon_weight_dimension_numbers=_dimensions,
        )  # fmt: skip

    def _schedule(self, rate: float) -> optax.Schedule:
        if self.decay_steps:
            return optax.warmup_cosine_decay_schedule(
                0.0, rate, self.warmup_steps, self.decay_steps, rate * self.final_fraction
            )
        if self.warmup_steps:
            return optax.linear_schedule(0.0, rate, self.warmup_steps)
        return optax.constant_schedule(rate)


def _dimensions(params):
    """What Muon takes for the rows and columns of each leaf; None where Adam works."""

    def of_leaf(path, leaf):
        axes = models.matrix_axes(path, leaf.ndim)
        return MuonDimensionNumbers(*axes) if axes else None

    return jax.tree_util.tree_map_with_path(of_leaf, params)
