"""The training cycle. Reading `iteration` from top to bottom is reading the algorithm."""

from collections.abc import Iterable, Sequence

import jax
import numpy as np
from ml_collections import ConfigDict

from spade_jax import seeding, statistics
from spade_jax.designer import (
    Environment,
    Memory,
    Record,
    draw_pool,
    reject_degenerate,
    repeat_share,
)
from spade_jax.designing import fill_pool, make_designs
from spade_jax.envs import PlayRequest, Program
from spade_jax.progress import Progress
from spade_jax.rl import (
    REWARDS,
    designer_advantages,
    group_advantages,
    pack,
    role_scale,
    token_weights,
)
from spade_jax.rollout import Episode, Trajectory
from spade_jax.rooms import Rooms
from spade_jax.state import RunState

REPEAT_WINDOW = 20  # newest records of a skill that a design is compared with


def iteration(
    rooms: Rooms, state: RunState, progress: Progress
) -> tuple[RunState, dict, list[Environment]]:
    """One step: design when due, play both arms, reward, update both roles, remember.

    Returns:
        The next state, this step's metrics and the designs that were written or trained in it. The
        given state is used up.
    """
    config, records = rooms.config, state.records
    step = records.step
    rooms.sample_with(state.learner, *rooms.engines)
    if config.sampler.warm_up:
        for engine in rooms.engines.values():
            engine.warm_up()

    fresh: list[Environment] = []
    if config.curriculum.fixed_pool:
        records.pool = records.pool or fill_pool(rooms, state, progress)
        live = draw_pool(records.pool, config.curriculum.num_envs, config.seed, step)
    else:
        if step % config.curriculum.regen_interval == 0:
            regeneration = step // config.curriculum.regen_interval
            fresh = make_designs(rooms, state, progress, f"{step:05d}", regeneration)
            records.designs += fresh
        live = _alive(records.designs, step, config.curriculum.regen_interval)
    rooms.rest("designer")

    with progress.phase("play"):
        episodes = _play_arms(rooms, live, step)
    with progress.phase("guard"):
        _guard(rooms, fresh, live, episodes, step)
    due = _due(records.designs, step, config)
    known = Memory.from_json(records.memory, rooms.memory_settings).records
    for design in due:
        design.reward, design.trained = _reward(rooms, design, known), True
    rooms.rest("agent")
    rooms.hosts.agree("the step", step)  # before devices wait for each other, without a deadline
    with progress.phase("update"):
        state, learned = _update(rooms, state, live, episodes, due)
    rooms.hosts.agree(f"the update of step {step}", learned)
    memory = _remember(rooms, records, fresh, step)

    metrics = {
        **statistics.designs(fresh),
        **statistics.environments([e for e in live if e.born == step and e.accepted], due),
        **statistics.plays(episodes, config.agent.group, _trained_arms(config)),
        **statistics.sampling(rooms.engines, rooms.hosts),
        **learned,
        **{f"memory/{name}": value for name, value in memory.coverage().items()},
    }
    touched = {design.name: design for design in (*fresh, *due)}
    alive = _names(_alive(records.designs, step + 1, config.curriculum.regen_interval))
    records.designs = [d for d in records.designs if not d.trained or d.name in alive]
    records.step = step + 1
    return state, metrics, list(touched.values())


def _names(designs: Iterable[Environment]) -> set[str]:
    return {design.name for design in designs}


def _alive(designs: Sequence[Environment], step: int, interval: int) -> list[Environment]:
    """The accepted designs of the regeneration epoch that `step` belongs to."""
    return [d for d in designs if d.accepted and d.born // interval == step // interval]


def _play_arms(
    rooms: Rooms, environments: Sequence[Environment], step: int
) -> statistics.Played:
    """Plays every live environment without the hint and, at its birth, with it: same seeds, same
    weights. The returns of valid plays are noted in the environments.

    Returns:
        "plain" and "hint": per environment, its episodes.
    """
    agent, seed = rooms.config.agent, rooms.config.seed
    programs = []
    for environment in environments:
        name = environment.name
        seeds = [seeding.derive(seed, name, step, "env", k) for k in range(agent.seeds_per_env)]

        def arm(label, count, hint, name=name, seeds=seeds):
            return [
                PlayRequest(seeds[k % len(seeds)], seeding.derive(seed, name, step, label, k), hint)
                for k in range(count)
            ]

        plays = arm("plain", agent.plays_per_env, None)
        if environment.born == step:
            plays += arm("hint", agent.hint_plays_per_env, environment.hint)
        programs.append(Program(environment.source, environment.shareable, tuple(plays)))
    played = rooms.player.play(programs, rooms.play_settings)
    plain = [episodes[: agent.plays_per_env] for episodes in played]
    hint = [episodes[agent.plays_per_env :] for episodes in played]
    for environment, without, with_hint in zip(environments, plain, hint, strict=True):
        environment.windows.append(_returns(without))
        environment.hint_returns += _returns(with_hint)
        environment.faults += sum(e.outcome == "void" for e in (*without, *with_hint))
    return {"plain": plain, "hint": hint}


def _returns(episodes: Sequence[Episode]) -> list[float]:
    return [episode.final_return for episode in episodes if episode.outcome != "void"]


def _guard(rooms: Rooms, fresh, live, episodes: dict, step: int) -> None:
    """Rejects new environments that one blind action sequence wins."""
    new = _names(fresh)
    played = [
        (environment, [*hint, *plain])
        for environment, hint, plain in zip(live, episodes["hint"], episodes["plain"], strict=True)
        if environment.name in new
    ]
    seeds = [
        seeding.derive(rooms.config.seed, step, "replay", k)
        for k in range(rooms.config.designer.replay_seeds)
    ]
    reject_degenerate(
        rooms.hosts, rooms.pool, [environment for environment, _ in played],
        [plays for _, plays in played], seeds, rooms.config.agent.max_turns,
    )  # fmt: skip


def _due(designs: Sequence[Environment], step: int, config: ConfigDict) -> list[Environment]:
    """Designs whose rewards are final: rejected ones at once, others after the delay or at the
    run's last step."""
    last = step + 1 == config.steps
    return [
        design
        for design in designs
        if not design.trained
        and (last or not design.accepted or step - design.born + 1 >= config.designer.delay)
    ]


def _reward(
    rooms: Rooms, environment: Environment, known: Sequence[Record]
) -> float | None:
    """The designer's raw reward (paper, section 4); None leaves the design out of the update.

    Args:
        known: the memory before this step, for the price of repetition (ours).
    """
    designer = rooms.config.designer
    if environment.trajectory.num_sampled() == 0:
        return None  # its prompt did not fit: not the designer's fault
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
    return reward - designer.repeat_cost * repeat_share(environment, known, REPEAT_WINDOW)


def _update(
    rooms: Rooms, state: RunState, live, episodes: statistics.Played, due: Sequence[Environment]
) -> tuple[RunState, dict]:
    """One optimizer step on both roles. Each role's gradient is summed on its own first."""
    config, records = rooms.config, state.records
    plays, agent_advantages = _agent_rows(rooms, live, episodes)
    designs = [design for design in due if design.reward is not None]
    scale = config.designer.weight
    if config.designer.role_scale:
        scale *= role_scale(
            len(plays), len(designs), config.curriculum.regen_interval, config.designer.max_scale
        )
    design_advantages, records.baselines = designer_advantages(
        [design.reward for design in designs], [design.skill for design in designs],
        records.baselines, scale, rooms.advantage_settings,
    )  # fmt: skip
    rows = {  # role -> per episode, its rows; and its advantage
        "agent": ([play.trajectories for play in plays], config.agent.weight * agent_advantages),
        "designer": (
            [[design.trajectory] for design in designs] if config.designer.train else [],
            design_advantages,
        ),
    }
    shares = _shares(config, {role: len(episodes) for role, (episodes, _) in rows.items()})
    total, metrics = None, {"designer/reward_mean": statistics.mean([d.reward for d in designs])}
    for role, (episodes, advantages) in rows.items():
        gradients, sums = _role_gradients(rooms, state, role, episodes, advantages, shares[role])
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


def _shares(config: ConfigDict, counts: dict[str, int]) -> dict[str, float]:
    """Share of each role in the loss: of all episodes ("joint", as published, where the role
    scale makes up for the rarer role), or 1 for each ("role")."""
    total = max(1, sum(counts.values()))
    joint = config.learner.normalise == "joint"
    return {role: count / total if joint else 1.0 for role, count in counts.items()}


def _trained_arms(config: ConfigDict) -> tuple[str, ...]:
    """Plays with the hint only measure, unless `agent.train_hint_arm` says otherwise."""
    return ("plain", "hint") if config.agent.train_hint_arm else ("plain",)


def _agent_rows(
    rooms: Rooms, environments, episodes: statistics.Played
) -> tuple[list[Episode], np.ndarray]:
    """The plays that are trained and their advantages, one per play. An arm is never another one's
    baseline."""
    config = rooms.config
    plays, returns, groups = [], [], []
    played = [
        (arm, environment, episode)
        for arm in _trained_arms(config)
        for environment, group in zip(environments, episodes[arm], strict=True)
        for episode in group
    ]
    for arm, environment, episode in played:
        cut = episode.outcome == "truncated" or episode.unfinished
        unseen = not episode.trajectories  # the first prompt did not fit
        if episode.outcome == "void" or unseen or (cut and config.learner.mask_truncated):
            continue
        plays.append(episode)
        returns.append(episode.final_return)
        seed = episode.task.seed if config.agent.group == "seed" else None
        groups.append((arm, environment.name, seed))
    return plays, group_advantages(returns, groups, config.agent.normalise)


def _role_gradients(
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


def _remember(rooms: Rooms, records, fresh: Sequence[Environment], step: int) -> Memory:
    """The memory with this step's new, accepted and played environments, which it also records.

    Also without `memory.enabled`, which is about what the designer is shown.
    """
    memory = Memory.from_json(records.memory, rooms.memory_settings)
    for design in fresh:
        plays = design.plays()
        if plays is None or not design.accepted:
            continue
        memory.add(
            Record(
                source=design.source,
                skill=design.skill,
                win_rate=max(0.0, plays.first),
                regret=max(0.0, plays.gap),
                step=step,
                document_id=design.document_id,
                knob=design.knob,
                family=design.family,
            )
        )
    records.memory = memory.to_json()
    return memory
