"""The optimizer step: gradients of packed micro-batches, summed, then one optimizer update."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from spade_jax import models, parallel
from spade_jax.rl.logprobs import token_logprobs
from spade_jax.rl.loss import LOSSES, LossSettings
from spade_jax.rl.optimizer import OptimizerSettings
from spade_jax.rl.packing import Batch


class LearnerState(NamedTuple):
    """`params` in fp32, the optimizer's state and `version`, the number of updates so far."""

    params: models.Params
    opt_state: optax.OptState
    version: jax.Array


class Learner:
    """Jitted, sharded functions over one model, loss and optimizer. Logits exist for `chunk`
    positions at a time on each device.

    Attributes:
        shardings: of a `LearnerState`.
    """

    def __init__(
        self,
        config: models.ModelConfig,
        mesh,
        loss: str,
        settings: LossSettings,
        optimizer: OptimizerSettings,
        chunk: int = 512,
    ):
        self.config, self.mesh, self.settings = config, mesh, settings
        self._kernels = models.choose_kernels(config, mesh)
        self._loss, self._optimizer, self._chunk = LOSSES[loss], optimizer.build(), chunk
        boxed = jax.eval_shape(self._boxed_init, jax.random.key(0))
        self.shardings = parallel.tree_shardings(mesh, boxed)
        rows = parallel.sharding(mesh, "batch", None)
        self._batch_sharding = rows
        self.init = jax.jit(
            lambda key: parallel.unbox(self._boxed_init(key)), out_shardings=self.shardings
        )
        self._gradients = jax.jit(
            self._gradient_step, out_shardings=(self.shardings.params, None)
        )
        self._add = jax.jit(lambda a, b: jax.tree.map(jnp.add, a, b), donate_argnums=0)
        self._apply = jax.jit(
            self._apply_step, donate_argnums=0, out_shardings=(self.shardings, None)
        )
        self._fused = jax.jit(
            self._fused_step, donate_argnums=0, out_shardings=(self.shardings, None)
        )
        self.norm = jax.jit(optax.tree.norm)

    def abstract(self) -> LearnerState:
        """Shapes, types and shardings of a state, for a restore."""

        def placed(sharding, leaves):  # a leaf, or none where the optimizer keeps nothing
            return jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), leaves
            )

        shapes = jax.eval_shape(self.init, jax.random.key(0))
        return jax.tree.map(placed, self.shardings, shapes)

    def adopt(self, params: models.Params) -> LearnerState:
        """A fresh optimizer around existing parameters (for example a warm start), which may become
        the state's own and be consumed with it."""
        params = jax.device_put(params, self.shardings.params)
        fresh = jax.jit(
            lambda params: (self._optimizer.init(params), jnp.int32(0)),
            out_shardings=self.shardings[1:],
        )
        return LearnerState(params, *fresh(params))

    def reference(self, params: models.Params) -> models.Params:
        """What the KL term needs of parameters that stay as they are: a copy in the dtype of
        computing, sharded as the parameters, which later updates do not consume."""
        cast = models.cast(self.config, params)
        return jax.tree.map(lambda new, old: jnp.copy(new) if new is old else new, cast, params)

    def abstract_reference(self) -> models.Params:
        """Shapes, types and shardings of `reference`, for a restore."""
        params = self.abstract().params
        wanted = jax.eval_shape(self.reference, params)
        return jax.tree.map(lambda leaf, new: leaf.update(dtype=new.dtype), params, wanted)

    def gradients(self, params, batch: Batch, temperature: float, reference=None):
        """`(gradients, statistics)` of one micro-batch.

        Args:
            reference: what `reference` gave; needed when the loss has a KL term.
        """
        if self.settings.kl and reference is None:
            raise ValueError("the loss has a KL term, so reference parameters are needed")
        return self._gradients(params, self._put(batch), temperature, reference)

    def add(self, total, gradients):
        """Sum of two gradient trees; `total` may be None and is consumed."""
        return gradients if total is None else self._add(total, gradients)

    def apply(self, state: LearnerState, gradients) -> tuple[LearnerState, dict]:
        """One optimizer step, which consumes `state`; statistics hold `grad_norm` before clipping
        and `update_norm`."""
        return self._apply(state, gradients)

    def step(self, state: LearnerState, batch: Batch) -> tuple[LearnerState, dict]:
        """Gradient and update of a single micro-batch in one program; consumes `state`."""
        return self._fused(state, self._put(batch))

    def lower_gradients(self, rows: int, length: int) -> jax.stages.Lowered:
        """The program of `gradients` on micro-batches `[rows, length]`, from shapes alone."""

        def array(kind):
            return jax.ShapeDtypeStruct((rows, length), kind, sharding=self._batch_sharding)

        batch = Batch(*[array(jnp.int32)] * 4, *[array(jnp.float32)] * 3)
        reference = self.abstract_reference() if self.settings.kl else None
        return self._gradients.lower(self.abstract().params, batch, 1.0, reference)

    def lower_apply(self) -> jax.stages.Lowered:
        """The program of `apply`, from shapes alone."""
        state = self.abstract()
        return self._apply.lower(state, state.params)

    def _put(self, batch: Batch) -> Batch:
        return parallel.place(batch, self._batch_sharding)

    def _boxed_init(self, key) -> LearnerState:
        params = models.init(self.config, key)
        return LearnerState(params, self._optimizer.init(params), jnp.zeros((), jnp.int32))

    def _logprobs(self, params, batch, temperature):
        """Log-probs and entropies of the targets `[R, T]`, and the routers' statistics."""
        hidden, routers = models.packed_forward(
            self.config, params, batch.tokens, batch.positions, batch.segment_ids, self._kernels
        )
        logp, entropy = token_logprobs(
            self.config, params, hidden, batch.targets, temperature, self._chunk, self.mesh
        )
        return logp, entropy, routers

    def _objective(self, params, batch, temperature, reference):
        logp, entropy, routers = self._logprobs(params, batch, temperature)
        if reference is not None:
            reference = jax.lax.stop_gradient(self._logprobs(reference, batch, temperature)[0])
        loss, sums = self._loss(logp, entropy, reference, batch, self.settings)
        weight = batch.weights.sum()  # so that micro-batches add up to their weighted mean
        return loss, sums | {"loss": loss} | {name: weight * x for name, x in routers.items()}

    def _gradient_step(self, params, batch, temperature, reference):
        gradients, sums = jax.grad(self._objective, has_aux=True)(
            params, batch, temperature, reference
        )
        return gradients, sums

    def _apply_step(self, state, gradients):
        updates, opt_state = self._optimizer.update(gradients, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        statistics = {
            "grad_norm": optax.tree.norm(gradients),
            "update_norm": optax.tree.norm(updates),
        }
        return LearnerState(params, opt_state, state.version + 1), statistics

    def _fused_step(self, state, batch):
        gradients, sums = self._gradient_step(state.params, batch, 1.0, None)
        state, statistics = self._apply_step(state, gradients)
        return state, sums | statistics
