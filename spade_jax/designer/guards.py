"""Checks on a design that the sandbox cannot make: is it what was asked for, and is it a game?"""

from collections.abc import Collection, Sequence

from sandbox_runner import BlockingPool, EnvError
from spade_jax.designer.environment import Environment
from spade_jax.designer.memory import Record
from spade_jax.designer.skills import SkillMatcher, is_verbatim
from spade_jax.envs.library import knob_of
from spade_jax.parallel import Hosts
from spade_jax.rollout import Episode
from spade_jax.text import canonical_action


def reject_degenerate(
    hosts: Hosts,
    pool: BlockingPool,
    environments: Sequence[Environment],
    episodes: Sequence[Sequence[Episode]],
    seeds: Sequence[int],
    max_turns: int,
) -> None:
    """Replays one winning action sequence of each environment blindly on other seeds.

    Where it wins on at least half of them, the environment asks for no observation: a hint that
    states the constant answer would make any regret. It is rejected as "degenerate".

    Args:
        episodes: per environment, its plays of this step.
        seeds: at least one episode seed that no play used.
    """
    candidates = []
    for environment, plays in zip(environments, episodes, strict=True):
        won = next((play for play in plays if play.final_return > 0), None)
        if won is not None:
            tool_use = bool(won.tools)
            actions = [canonical_action(reply, tool_use) for reply in won.replies]
            candidates.append((environment, actions))

    def replayed(share: list[tuple[Environment, list[str]]]) -> list[float]:
        return replay_wins(
            pool,
            [(environment.source, environment.shareable) for environment, _ in share],
            [actions for _, actions in share],
            seeds,
            max_turns,
        )

    wins = hosts.spread("replays", replayed, candidates)
    for (environment, _), share in zip(candidates, wins, strict=True):
        if share >= 0.5:
            environment.reject(
                "degenerate", f"one fixed action sequence wins on {share:.0%} of other seeds"
            )


def replay_wins(
    pool: BlockingPool,
    programs: Sequence[tuple[str, bool]],
    scripts: Sequence[Sequence[str]],
    seeds: Sequence[int],
    max_turns: int,
) -> list[float]:
    """Share of `seeds` on which each program's script ends with a positive reward, in [0, 1].

    Args:
        programs: `(source, shareable)`.
        scripts: actions of each program, in canonical form.
    """
    owners = [index for index in range(len(programs)) for _ in seeds]
    sessions = pool.open(
        [programs[i][0] for i in owners], [programs[i][1] for i in owners], max_turns
    )
    lanes = [
        (session, owner, iter(scripts[owner]), seed)
        for session, owner, seed in zip(
            sessions, owners, list(seeds) * len(programs), strict=True
        )
        if not isinstance(session, EnvError)
    ]
    first = pool.reset([(session, seed) for session, _, _, seed in lanes])
    running = [
        lane for lane, seen in zip(lanes, first, strict=True) if not isinstance(seen, EnvError)
    ]
    wins = [0] * len(programs)
    while running:
        due = [(lane, action) for lane in running if (action := next(lane[2], None)) is not None]
        results = pool.step([(lane[0], action) for lane, action in due])
        running = []
        for (lane, _), result in zip(due, results, strict=True):
            if isinstance(result, EnvError):
                continue
            if result.terminated:
                wins[lane[1]] += result.reward > 0
            elif not result.truncated:
                running.append(lane)
    pool.close([session for session in sessions if not isinstance(session, EnvError)])
    return [count / len(seeds) for count in wins]


def repeat_share(environment: Environment, records: Sequence[Record], recent: int) -> float:
    """Share of the skill's newest `recent` records with this family and about this knob, in [0, 1].

    A designer that has found one environment that pays would write it for ever; a reward that
    falls with this share keeps families and difficulties spread.
    """
    newest = [record for record in records if record.skill == environment.skill][-recent:]
    if not newest or environment.knob is None:
        return 0.0
    same = [
        record.family == environment.family
        and record.knob is not None
        and abs(record.knob - environment.knob) <= 0.1 * environment.knob
        for record in newest
    ]
    return sum(same) / len(newest)


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
