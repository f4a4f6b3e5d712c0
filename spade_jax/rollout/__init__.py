from spade_jax.rollout.play import Episode, Feedback, Task, World, play
from spade_jax.rollout.trajectory import Trajectory

__all__ = ["Episode", "Feedback", "Task", "Trajectory", "World", "play"]
