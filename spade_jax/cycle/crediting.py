"""Which plays say something about the Agent, and which are trained, with what advantage."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from ml_collections import ConfigDict

from spade_jax import statistics
from spade_jax.designer import Environment
from spade_jax.rl import group_advantages, moving_advantages, varied, zero_variance_groups
from spade_jax.rollout import Episode
from spade_jax.text import well_formed


class ScoredPlay(NamedTuple):
    """One valid play of a trained arm.

    Attributes:
        group: its advantage group: arm, environment and, with `agent.group=seed`, the seed.
        score: the return that is trained, `agent.format_bonus` included.
    """

    episode: Episode
    environment: Environment
    group: tuple[str, str, int | None]
    score: float

    @property
    def arm(self) -> str:
        return self.group[0]


def scored_plays(
    config: ConfigDict, environments: Sequence[Environment], episodes: statistics.Played
) -> list[ScoredPlay]:
    """The plays that advantages are made of: those that are void or whose first prompt did not fit
    say nothing. An arm is never another one's baseline.

    Plays with the hint only measure, unless `agent.train_hint_arm` says otherwise.
    """
    plays = []
    for arm in ("plain", "hint") if config.agent.train_hint_arm else ("plain",):
        for environment, of_one in zip(environments, episodes[arm], strict=True):
            for episode in of_one:
                if episode.outcome == "void" or not episode.trajectories:
                    continue
                seed = episode.task.seed if config.agent.group == "seed" else None
                score = episode.final_return + _format_bonus(config, episode)
                plays.append(ScoredPlay(episode, environment, (arm, environment.name, seed), score))
    return plays


def is_masked(config: ConfigDict, episode: Episode) -> bool:
    """Whether a play only counts in its group's baseline: none of its tokens are trained."""
    cut = episode.outcome == "truncated" or episode.unfinished
    return config.learner.mask_truncated and cut


def agent_rows(
    config: ConfigDict, plays: Sequence[ScoredPlay]
) -> tuple[list[Episode], np.ndarray]:
    """The plays that are trained and their advantages, one per play. A moving baseline is moved."""
    scores, groups = [play.score for play in plays], [play.group for play in plays]
    if config.agent.baseline == "moving":
        advantages = _against_moving_averages(plays, config.agent.baseline_decay)
    else:
        advantages = group_advantages(scores, groups, config.agent.normalise)
    drops = config.learner.drop_zero_variance
    candidates = varied(scores, groups) if drops else range(len(plays))
    kept = [k for k in candidates if not is_masked(config, plays[k].episode)]
    return [plays[k].episode for k in kept], advantages[kept]


def group_metrics(
    environments: Sequence[Environment], plays: Sequence[ScoredPlay]
) -> statistics.Metrics:
    """How many advantage groups teach nothing, of all `environments` and of each skill's."""
    skills: dict[str, list[ScoredPlay]] = {each.skill: [] for each in environments}
    for play in plays:
        skills[play.environment.skill].append(play)
    name = "agent/zero_variance_groups"
    metrics = {name: _zero_variance(plays)}
    for skill, own in sorted(skills.items()):
        if skill:
            metrics[f"{name}/{statistics.slug(skill)}"] = _zero_variance(own)
    return metrics


def is_well_formed(play: Episode) -> bool:
    """Whether every action has the form that its environment asks for."""
    return all(well_formed(reply, bool(play.tools)) for reply in play.replies)


def _against_moving_averages(plays: Sequence[ScoredPlay], decay: float) -> np.ndarray:
    """Advantages over the averages of the environments, which then take these plays in."""
    groups = [play.group for play in plays]
    before = {
        play.group: play.environment.baselines[play.arm]
        for play in plays
        if play.arm in play.environment.baselines
    }
    advantages, after = moving_advantages([play.score for play in plays], groups, before, decay)
    for play in plays:
        play.environment.baselines[play.arm] = after[play.group]
    return advantages


def _zero_variance(plays: Sequence[ScoredPlay]) -> float:
    return zero_variance_groups([play.score for play in plays], [play.group for play in plays])


def _format_bonus(config: ConfigDict, play: Episode) -> float:
    """What the return that is trained gets for the form of the actions; nobody else sees it."""
    bonus = config.agent.format_bonus
    return (bonus if is_well_formed(play) else -bonus) if bonus else 0.0
