"""What a design is paid, once all of its plays are in."""

from collections.abc import Sequence

from ml_collections import ConfigDict

from spade_jax.designer import BROKEN, Environment, Record, repeat_share
from spade_jax.rl import REWARDS
from spade_jax.rooms import Rooms

REPEAT_WINDOW = 20  # newest records of a skill that a design is compared with


def due_designs(designs: Sequence[Environment], step: int, config: ConfigDict) -> list[Environment]:
    """Designs whose rewards are final: rejected ones at once, others after the delay or at the
    run's last step."""
    last = step + 1 == config.steps
    return [
        design
        for design in designs
        if not design.trained
        and (last or not design.accepted or step - design.born + 1 >= config.designer.delay)
    ]


def raw_reward(
    rooms: Rooms, environment: Environment, known: Sequence[Record]
) -> float | None:
    """The designer's raw reward (paper, section 4); None leaves the design out of the update.

    Args:
        known: the memory before this step, for the price of repetition (ours).
    """
    designer = rooms.config.designer
    if environment.trajectory.num_sampled() == 0:
        return None  # its prompt did not fit: not the designer's fault
    if environment.excused:
        return None
    if environment.stage == "off_skill":
        return designer.off_skill_reward if designer.train_invalid else None
    if environment.stage == "degenerate":
        return designer.degenerate_reward
    if not environment.accepted:
        return designer.invalid_reward if designer.train_invalid else None
    if environment.faults:
        return designer.fault_reward
    plays = environment.plays()
    if plays is None:
        return None
    reward = REWARDS[designer.reward](plays, rooms.reward_settings)
    if designer.reward == "blend" and reward < 0:
        return None
    if environment.judgement == BROKEN:
        reward -= designer.self_judge_cost
    return reward - designer.repeat_cost * repeat_share(environment, known, REPEAT_WINDOW)
