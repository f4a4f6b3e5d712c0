"""Scores the agent on held-out environments: by difficulty level, sampled and greedy."""

from collections.abc import Sequence

from spade_jax import seeding
from spade_jax.envs import Player, PlayRequest, Program
from spade_jax.eval.held_out import HeldOut
from spade_jax.rollout import PlaySettings
from spade_jax.statistics import mean, standard_error


def evaluate(
    player: Player,
    environments: Sequence[HeldOut],
    episodes: int,
    settings: PlaySettings,
    seed: int,
) -> dict[str, float]:
    """Mean returns without hints. The same seeds whatever the parameters, so that two evaluations
    of a run are paired.

    Args:
        episodes: per environment.

    Returns:
        `all` (the mean over environments of the mean over their valid episodes), `stderr` (over
        environments), `void` (share of episodes that an environment's fault ended), `level_1` to
        `level_4`, `hard` (the top two levels), `seen` and `unseen` (families that training shows
        with other constants, or never).
    """
    programs = [
        Program(
            environment.source,
            True,
            tuple(
                PlayRequest(
                    seeding.derive(seed, environment.name, "env", k),
                    seeding.derive(seed, environment.name, "sample", k),
                )
                for k in range(episodes)
            ),
        )
        for environment in environments
    ]
    played = player.play(programs, settings)
    returns: dict[str, list[float]] = {}
    void = 0
    for environment, plays in zip(environments, played, strict=True):
        valid = [play.final_return for play in plays if play.outcome != "void"]
        void += len(plays) - len(valid)
        values = [mean(valid)] if valid else []
        groups = ["all", f"level_{environment.level}", "seen" if environment.seen else "unseen"]
        for group in (*groups, "hard") if environment.level >= 3 else groups:
            returns.setdefault(group, []).extend(values)
    scores = {group: mean(values) for group, values in sorted(returns.items()) if values}
    total = len(environments) * episodes
    return scores | {"stderr": standard_error(returns["all"]), "void": void / max(1, total)}
