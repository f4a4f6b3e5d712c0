from spade_jax.rollout.play import Episode, play
from spade_jax.rollout.trajectory import Trajectory
from spade_jax.rollout.wire import EPISODES, PackedRow
from spade_jax.rollout.world import Feedback, ImmediateWorld, PlaySettings, Task, World

__all__ = [
    "EPISODES",
    "Episode",
    "Feedback",
    "ImmediateWorld",
    "PackedRow",
    "PlaySettings",
    "Task",
    "Trajectory",
    "World",
    "play",
]
