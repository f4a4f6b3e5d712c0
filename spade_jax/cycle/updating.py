"""One optimizer step on the rows of both roles."""

from collections.abc import Mapping, Sequence

import jax
from ml_collections import ConfigDict

from spade_jax import statistics
from spade_jax.cycle.crediting import (
    agent_rows,
    group_metrics,
    is_masked,
    is_well_formed,
    scored_plays,
)
from spade_jax.designer import Environment
from spade_jax.rl import designer_advantages, pack, role_scale, token_weights
from spade_jax.rollout import Episode, Trajectory
from spade_jax.rooms import Rooms
from spade_jax.state import RunState


def update(
    rooms: Rooms,
    state: RunState,
    environments: Sequence[Environment],
    episodes: statistics.Played,
    due: Sequence[Environment],
) -> tuple[RunState, dict]:
    """One optimizer step on both roles. Each role's gradient is summed on its own first."""
    config, records = rooms.config, state.records
    scored = scored_plays(config, environments, episodes)
    plays, agent_advantages = agent_rows(config, scored)
    designs = [design for design in due if design.reward is not None]
    scale = config.designer.weight
    if config.designer.role_scale:  # of groups without variance too, also where those are dropped
        played = sum(not is_masked(config, play.episode) for play in scored)
        scale *= role_scale(
            played, len(designs), config.curriculum.regen_interval, config.designer.max_scale
        )
    design_advantages, records.baselines = designer_advantages(
        [design.reward for design in designs], [design.skill for design in designs],
        records.baselines, scale, rooms.advantage_settings,
    )  # fmt: skip
    rows = {  # role -> per episode, its rows; and its advantage
        "agent": (
            [_rows(config, play) for play in plays], config.agent.weight * agent_advantages
        ),
        "designer": (
            [[design.trajectory] for design in designs] if config.designer.train else [],
            design_advantages,
        ),
    }
    shares = _shares(config, {role: of_role for role, (of_role, _) in rows.items()})
    total, metrics = None, {
        "designer/reward_mean": statistics.mean([design.reward for design in designs]),
        "agent/trained_episodes": len(plays),
        **group_metrics(environments, scored),
    }
    if config.agent.format_bonus and plays:
        metrics["agent/well_formed_fraction"] = statistics.mean(
            [is_well_formed(play) for play in plays]
        )
    for role, (of_role, advantages) in rows.items():
        gradients, sums = role_gradients(rooms, state, role, of_role, advantages, shares[role])
        if gradients is not None:
            metrics |= {f"{role}/{name}": value for name, value in sums.items()}
            metrics[f"{role}/grad_norm"] = float(rooms.learner.norm(gradients))
            total = rooms.learner.add(total, gradients)
            del gradients  # as large as the model
    if total is not None:
        learner, applied = rooms.learner.apply(state.learner, total)
        state.learner = learner
        metrics |= {f"train/{name}": float(value) for name, value in applied.items()}
    gaps = [metrics[f"{role}/logprob_gap"] for role in rows if f"{role}/logprob_gap" in metrics]
    if gaps:
        metrics["train/logprob_gap"] = max(gaps)
    return state, metrics


def _rows(config: ConfigDict, play: Episode) -> list[Trajectory]:
    """A play's rows as they are trained."""
    if not config.agent.mask_malformed:
        return play.trajectories
    rows = [row.without_malformed() for row in play.trajectories]
    return [row for row in rows if row.num_sampled()]


def _shares(
    config: ConfigDict, rows: Mapping[str, Sequence[Sequence[Trajectory]]]
) -> dict[str, float]:
    """Share of each role in the loss. "joint", as published, where the role scale makes up for the
    rarer role: of what `learner.aggregation` is a mean over, episodes or trained tokens. "role":
    1 for each.

    Args:
        rows: role -> per episode, its rows.
    """
    if config.learner.normalise == "role":
        return dict.fromkeys(rows, 1.0)
    counts = {role: len(episodes) for role, episodes in rows.items()}
    if config.learner.aggregation == "token":
        counts = {
            role: sum(row.num_sampled() for episode in episodes for row in episode)
            for role, episodes in rows.items()
        }
    total = max(1, sum(counts.values()))
    return {role: count / total for role, count in counts.items()}


def role_gradients(
    rooms: Rooms,
    state: RunState,
    role: str,
    episodes: Sequence[Sequence[Trajectory]],
    advantages: Sequence[float],
    share: float,
):
    """`(gradients, weighted mean statistics)` of one role; None without rows.

    Args:
        episodes: per episode, its rows, all of which get its advantage.
    """
    shape, total, sums = rooms.config.learner[role], None, []
    trajectories = [row for episode in episodes for row in episode]
    owners = [number for number, episode in enumerate(episodes) for _ in episode]
    aggregation = rooms.config.learner.aggregation
    weights = [share * weight for weight in token_weights(trajectories, aggregation, owners)]
    row_advantages = [advantages[owner] for owner in owners]
    for batch in pack(trajectories, row_advantages, weights, shape.rows, shape.length):
        gradients, statistics_ = rooms.learner.gradients(
            state.learner.params, batch, rooms.config[role].temperature, state.reference
        )
        total = rooms.learner.add(total, gradients)
        del gradients  # as large as the model
        sums.append(statistics_)
    if total is None:
        return None, {}
    sums = jax.device_get(sums)
    means = {name: float(sum(part[name] for part in sums)) / share for name in sums[0]}
    if any(row.version != int(state.learner.version) for row in trajectories):
        means["policy_age_gap"] = means.pop("logprob_gap")  # older weights sampled some rows
    return total, means
