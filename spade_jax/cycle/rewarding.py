"""What a design is paid, once all of its plays are in."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from ml_collections import ConfigDict

from spade_jax.designer import BROKEN, Environment, Record, novelty, repeat_share
from spade_jax.rl import REWARDS, Plays, SkillAverages, updated_averages
from spade_jax.rooms import Rooms

REPEAT_WINDOW = 20  # newest records of a skill that a design is compared with


def due_designs(designs: Sequence[Environment], step: int, config: ConfigDict) -> list[Environment]:
    """Designs whose rewards are final: after the delay, or at the run's last step. Rejected ones
    wait as well: a reward is centred among those that are trained in the same step."""
    last = step + 1 == config.steps
    return [
        design
        for design in designs
        if not design.trained
        and (last or step - design.born + 1 >= config.designer.delay)
    ]


def pay(
    rooms: Rooms, due: Sequence[Environment], averages: Mapping[str, SkillAverages]
) -> dict[str, SkillAverages]:
    """Gives every due design its reward.

    Args:
        averages: of the skills, before the plays of these designs.

    Returns:
        The skills' averages with those plays.
    """
    returns: dict[str, list[np.ndarray]] = {}
    for design in due:
        if (plays := _paying_plays(design)) is not None:
            returns.setdefault(design.skill, []).append(np.concatenate(plays.windows))
    speeds = rooms.config.designer.average_fast, rooms.config.designer.average_slow
    averages = updated_averages(averages, returns, *speeds)
    for design in due:
        design.reward, design.trained = raw_reward(rooms, design, averages), True
    return averages


def raw_reward(
    rooms: Rooms, environment: Environment, averages: Mapping[str, SkillAverages]
) -> float | None:
    """The designer's raw reward (paper, section 4); None leaves the design out of the update.

    Of a design that was repaired only the first answer is trained, as the rejected one it is.
    """
    designer = rooms.config.designer
    if environment.trajectory.num_sampled() == 0:
        return None  # its prompt did not fit: not the designer's fault
    if environment.excused and environment.first_stage is None:
        return None  # a repaired one still answers for its first source
    stage = _rejection(environment)
    if stage == "off_skill":
        return designer.off_skill_reward if designer.train_invalid else None
    if stage == "degenerate":
        return designer.degenerate_reward
    if stage is not None:
        return designer.invalid_reward if designer.train_invalid else None
    if environment.faults:
        return designer.fault_reward
    plays = _paying_plays(environment)
    if plays is None:
        return None
    plays = dataclasses.replace(plays, averages=averages[environment.skill])
    reward = REWARDS[designer.reward](plays, rooms.reward_settings)
    if designer.reward == "blend" and reward < 0:
        return None
    if environment.judgement == BROKEN:
        reward -= designer.self_judge_cost
    reward += designer.coverage_bonus * (environment.novelty or 0.0)
    return reward - designer.repeat_cost * (environment.repetition or 0.0)


def note_novelty(fresh: Sequence[Environment], known: Sequence[Record]) -> None:
    """How new, accepted designs stand to the memory as it was before them (ours)."""
    for design in fresh:
        if design.accepted:
            design.novelty = novelty(design, known, REPEAT_WINDOW)
            design.repetition = repeat_share(design, known, REPEAT_WINDOW)


def _rejection(design: Environment) -> str | None:
    """Where the trained answer, the first, was rejected."""
    return design.first_stage or design.stage


def _paying_plays(design: Environment) -> Plays | None:
    """The plays that decide a design's reward, if any do."""
    return None if _rejection(design) or design.faults else design.plays()
