"""Playing the live environments: both arms, and the guards that need what was played."""

from collections.abc import Sequence

from spade_jax import seeding, statistics
from spade_jax.designer import Environment, reject_degenerate
from spade_jax.envs import PlayRequest, Program
from spade_jax.rollout import Episode
from spade_jax.rooms import Rooms


def play_arms(
    rooms: Rooms, environments: Sequence[Environment], step: int
) -> statistics.Played:
    """Plays every live environment without the hint and, at its birth, with the one that it may
    have: same seeds, same weights. The returns of valid plays are noted in the environments.

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
        # Where a hint was dropped because it leaked, the arms are played alike: its gap is none.
        if environment.born == step and (environment.hint or environment.leaked):
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


def guard(rooms: Rooms, fresh, live, episodes: dict, step: int) -> None:
    """Rejects new environments that pay without being played, by `designer.guards`."""
    new = {design.name for design in fresh}
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
        rooms.guard_settings,
    )  # fmt: skip
