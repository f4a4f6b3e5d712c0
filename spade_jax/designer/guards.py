"""Checks on a design that the sandbox cannot make: is it what was asked for, and is it a game?

A script is the actions of one play. Replayed on other seeds it sees nothing, so what it wins there
asks for no observation: a hint that states the constant answer would make any regret.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sandbox_runner import BlockingPool, EnvError
from spade_jax.designer.environment import Environment
from spade_jax.designer.skills import SkillMatcher, is_verbatim
from spade_jax.envs.library import knob_of
from spade_jax.parallel import Hosts
from spade_jax.rollout import Episode
from spade_jax.text import canonical_action

WAVE = 96  # replays at a time, each of which may need a process of its own

Script = tuple[str, ...]  # actions in canonical form
Endings = list[list[float | None]]  # script, seed -> the last reward; None: it did not terminate


@dataclasses.dataclass(frozen=True)
class GuardSettings:
    """Attributes:
    guards: names in `GUARDS` of those that are on, in their order.
    guesses: scripts that a guard replays at most, except "replay", which replays one.
    """

    guards: tuple[str, ...] = ("replay",)
    guesses: int = 3


class Guard(NamedTuple):
    """Which scripts of an environment's plays are replayed, and what follows: why it is
    rejected, or None. Without scripts it is not judged."""

    scripts: Callable[[Sequence[Episode], GuardSettings], list[Script]]
    judge: Callable[[Sequence[Episode], list[Script], Endings], str | None]


def reject_degenerate(
    hosts: Hosts,
    pool: BlockingPool,
    environments: Sequence[Environment],
    episodes: Sequence[Sequence[Episode]],
    seeds: Sequence[int],
    max_turns: int,
    settings: GuardSettings,
) -> None:
    """Rejects environments as "degenerate" by the first guard that objects.

    Args:
        episodes: per environment, its plays of this step.
        seeds: at least one episode seed that no play used.
    """
    for name in settings.guards:
        guard = GUARDS[name]
        wanted = [
            (environment, plays, scripts)
            for environment, plays in zip(environments, episodes, strict=True)
            if environment.accepted and (scripts := guard.scripts(plays, settings))
        ]

        def replayed(share) -> list[Endings]:
            programs = [(environment.source, environment.shareable) for environment, _, _ in share]
            return replays(pool, programs, [scripts for *_, scripts in share], seeds, max_turns)

        endings = hosts.spread(f"replays for {name}", replayed, wanted)
        for (environment, plays, scripts), ended in zip(wanted, endings, strict=True):
            if reason := guard.judge(plays, scripts, ended):
                environment.reject("degenerate", reason)


def script(episode: Episode) -> Script:
    tool_use = bool(episode.tools)
    return tuple(canonical_action(reply, tool_use) for reply in episode.replies)


def first_win(plays: Sequence[Episode], settings: GuardSettings) -> list[Script]:
    """The actions of one winning play."""
    del settings
    return [script(play) for play in plays if play.final_return > 0][:1]


def likely_guesses(plays: Sequence[Episode], settings: GuardSettings) -> list[Script]:
    """The different action sequences that won most often, then those that lost most often: where
    there are few answers, what is wrong on one seed is right on another."""
    wins = Counter(script(play) for play in plays if play.final_return > 0)
    ends = Counter(script(play) for play in plays if play.outcome == "terminated")
    ranked = [actions for actions, _ in [*wins.most_common(), *ends.most_common()]]
    return list(dict.fromkeys(ranked))[: settings.guesses]


def common_endings(plays: Sequence[Episode], settings: GuardSettings) -> list[Script]:
    """The different action sequences that most plays ended with."""
    ends = Counter(script(play) for play in plays if play.outcome == "terminated")
    return [actions for actions, _ in ends.most_common(settings.guesses)]


def constant_guesses(
    plays: Sequence[Episode], scripts: list[Script], endings: Endings
) -> str | None:
    """So few answers that some of a few fixed action sequences wins on at least half of the
    seeds."""
    del plays
    per_seed = list(zip(*endings, strict=True))
    won = sum(any(reward is not None and reward > 0 for reward in seed) for seed in per_seed)
    share, count = won / len(per_seed), len(scripts)
    if share < 0.5:
        return None
    who = "one fixed action sequence wins"
    if count > 1:
        who = f"{count} fixed action sequences together win"
    return f"{who} on {share:.0%} of other seeds"


def permanent_credit(
    plays: Sequence[Episode], scripts: list[Script], endings: Endings
) -> str | None:
    """Every end is paid alike, below a full win, or no play and no replay ever loses while not all
    win in full: the rewards do not tell wins from losses. One action sequence alone proves nothing.
    """
    if len(scripts) < 2:
        return None
    finished = [play for play in plays if play.outcome in ("terminated", "truncated")]
    own = [play.final_return if play.outcome == "terminated" else None for play in finished]
    rewards = own + [reward for ended in endings for reward in ended]
    paid = [reward for reward in rewards if reward is not None]
    low, high = min(paid), max(paid)
    if 0 < low == high < 1:
        return f"each of {len(paid)} ends pays {low:g}"
    if len(paid) == len(rewards) and 0 < low < 1:
        return f"none of {len(paid)} plays loses: they pay from {low:g} to {high:g}"
    return None


GUARDS = {
    "replay": Guard(first_win, constant_guesses),
    "guesses": Guard(likely_guesses, constant_guesses),
    "partial_credit": Guard(common_endings, permanent_credit),
}


def replays(
    pool: BlockingPool,
    programs: Sequence[tuple[str, bool]],
    scripts: Sequence[Sequence[Sequence[str]]],
    seeds: Sequence[int],
    max_turns: int,
) -> list[Endings]:
    """How each program's scripts end on every seed. What fails does not terminate.

    Args:
        programs: `(source, shareable)`.
        scripts: per program, its scripts, with actions in canonical form.
    """
    lanes = [
        (program, actions, seed)
        for program, tried in zip(programs, scripts, strict=True)
        for actions in tried
        for seed in seeds
    ]
    ended = []
    for start in range(0, len(lanes), WAVE):
        ended += _replay(pool, lanes[start : start + WAVE], max_turns)
    endings = iter(ended)
    return [[[next(endings) for _ in seeds] for _ in tried] for tried in scripts]


def _replay(pool: BlockingPool, lanes: Sequence[tuple], max_turns: int) -> list[float | None]:
    """The last reward of each `((source, shareable), actions, seed)`, or None."""
    sessions = pool.open(
        [program[0] for program, _, _ in lanes], [program[1] for program, _, _ in lanes], max_turns
    )
    opened = [
        (session, lane, iter(lanes[lane][1]))
        for lane, session in enumerate(sessions)
        if not isinstance(session, EnvError)
    ]
    first = pool.reset([(session, lanes[lane][2]) for session, lane, _ in opened])
    running = [
        place for place, seen in zip(opened, first, strict=True) if not isinstance(seen, EnvError)
    ]
    rewards: list[float | None] = [None] * len(lanes)
    while running:
        due = [(place, action) for place in running if (action := next(place[2], None)) is not None]
        results = pool.step([(place[0], action) for place, action in due])
        running = []
        for (place, _), result in zip(due, results, strict=True):
            if isinstance(result, EnvError):
                continue
            if result.terminated:
                rewards[place[1]] = max(-1.0, min(1.0, result.reward))
            elif not result.truncated:
                running.append(place)
    pool.close([session for session, _, _ in opened])
    return rewards


def check_skills(
    matcher: SkillMatcher,
    environments: Sequence[Environment],
    enforce: bool,
    verbatim_sources: Collection[str],
) -> None:
    """Notes family, knob and verbatim copies; with `enforce` rejects designs of another skill.

    Args:
        verbatim_sources: `verbatim_keys` of the warm start's sources.
    """
    for environment in environments:
        if not environment.source:
            continue
        match = matcher.match(environment.source)
        environment.family = match.family
        environment.knob = knob_of(environment.source)
        environment.verbatim = is_verbatim(environment.source, verbatim_sources)
        if enforce and match.skill != environment.skill:
            found = match.skill or "no known structure"
            environment.reject("off_skill", f"asked for {environment.skill}, wrote {found}")
