from spade_jax.rl.advantages import (
    DesignerAdvantageSettings,
    designer_advantages,
    group_advantages,
    moving_advantages,
    role_scale,
    varied,
    zero_variance_groups,
)
from spade_jax.rl.averages import SkillAverages, updated_averages
from spade_jax.rl.learner import Learner, LearnerState
from spade_jax.rl.loss import LossSettings
from spade_jax.rl.optimizer import OptimizerSettings
from spade_jax.rl.packing import Batch, PackingError, pack, token_weights
from spade_jax.rl.rewards import REWARDS, Plays, RewardSettings

__all__ = [
    "REWARDS",
    "Batch",
    "DesignerAdvantageSettings",
    "Learner",
    "LearnerState",
    "LossSettings",
    "OptimizerSettings",
    "PackingError",
    "Plays",
    "RewardSettings",
    "SkillAverages",
    "designer_advantages",
    "group_advantages",
    "moving_advantages",
    "pack",
    "role_scale",
    "token_weights",
    "updated_averages",
    "varied",
    "zero_variance_groups",
]
