"""What other models, or the model in another part, have to say of the designer's environments.

All of it is off unless the recipe asks for it. Answers of a server can not be had twice, so each is
kept in the environment that it is about, and with it in the checkpoint.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

import msgspec
from ml_collections import ConfigDict

from spade_jax import designer, seeding, statistics
from spade_jax.designer import Ask, Environment
from spade_jax.envs import Player, PlayRequest, Program
from spade_jax.grounding import cut_words
from spade_jax.progress import Progress
from spade_jax.remote import RemoteEngine, Use, use_metrics
from spade_jax.rollout import Episode, PlaySettings
from spade_jax.rooms import Rooms


def advise(rooms: Rooms, drafts: Sequence[Environment], progress: Progress) -> None:
    """Audit, hint and leak check of this process's drafts, each only of those accepted so far."""
    config = rooms.config
    if config.audit.enabled:
        with progress.phase("audit"):
            sound = _accepted(drafts)
            designer.audit(
                _asking(rooms, "audit"), rooms.prompts, sound, _seeds(rooms, sound, "audit"),
                config.audit.unknown == "accept",
            )  # fmt: skip
    if config.hints.source != "inline":
        with progress.phase("hint"):
            sound = _accepted(drafts)
            designer.write_hints(
                _asking(rooms, "hints"), rooms.prompts, sound, _seeds(rooms, sound, "hint"),
                config.hints.max_words,
            )  # fmt: skip
    for draft in drafts:
        draft.hint = cut_words(draft.hint, config.hints.max_words)
    if config.hints.leak_check:
        with progress.phase("leak"):
            _check_leaks(rooms, _accepted(drafts))


def judge_new(
    rooms: Rooms,
    fresh: Sequence[Environment],
    live: Sequence[Environment],
    played: statistics.Played,
    progress: Progress,
) -> None:
    """Asks the model whether each new environment worked in the first of its valid plays."""
    if not rooms.config.designer.self_judge:
        return
    plays = {
        environment.name: next((e for e in episodes if e.outcome != "void"), None)
        for environment, episodes in zip(live, played["plain"], strict=True)
    }
    seen = [(e, plays[e.name]) for e in _accepted(fresh) if plays.get(e.name) is not None]
    how = PlaySettings(0.0, 1, rooms.config.designer.self_judge_tokens)
    ask = designer.asking_model(rooms.engines["agent"], rooms.language.chats["designer"], how)

    def judged(share: list[tuple[Environment, Episode]]) -> list[str]:
        seeds = _seeds(rooms, [environment for environment, _ in share], "judge")
        return designer.judge(ask, rooms.prompts, share, seeds)

    with progress.phase("judge"):
        verdicts = rooms.hosts.spread("judgements", judged, seen)
    for (environment, _), verdict in zip(seen, verdicts, strict=True):
        environment.judgement = verdict


def measure(rooms: Rooms, live: Sequence[Environment], progress: Progress) -> None:
    """The server's model plays each environment that it has not played yet."""
    section = rooms.config.yardstick
    if not section.enabled:
        return
    new = [environment for environment in _accepted(live) if not environment.yardstick]
    programs = []
    for environment in new:
        seeds = [
            seeding.derive(rooms.config.seed, environment.name, "yardstick", k)
            for k in range(section.plays)
        ]
        plays = tuple(PlayRequest(seed, seed) for seed in seeds)
        programs.append(Program(environment.source, environment.shareable, plays))
    engine = RemoteEngine(rooms.server, "yardstick")
    player = Player(engine, engine.chat, rooms.pool, rooms.prompts, rooms.hosts)
    how = PlaySettings(section.temperature, rooms.config.agent.max_turns, section.max_new_tokens)
    with progress.phase("yardstick"):
        played = player.play(programs, how)
    for environment, episodes in zip(new, played, strict=True):
        environment.yardstick = [
            e.final_return for e in episodes if e.outcome not in ("void", "deadline")
        ]


def speaking_phases(config: ConfigDict) -> dict[str, tuple[str, ...]]:
    """Role -> the phases of a step in which its engine samples, where they happen."""
    helping = {"audit": config.audit, "hint": config.hints}
    own = [phase for phase, section in helping.items() if section.source == "self"]
    return {"designer": ("design", *own), "agent": ("play", "judge")}


def advice_metrics(
    rooms: Rooms, fresh: Sequence[Environment], live: Sequence[Environment]
) -> statistics.Metrics:
    """Verdicts, leaks, the yardstick's returns and the use of the server in this step."""
    config = rooms.config
    metrics: statistics.Metrics = {}
    if fresh and config.audit.enabled:
        counts = Counter(environment.audit for environment in fresh)
        for verdict in (designer.SOLVABLE, designer.UNSOLVABLE, designer.UNKNOWN):
            metrics[f"audit/{verdict}"] = counts[verdict]
    if fresh and config.hints.leak_check:
        metrics["hint/leaks"] = sum(environment.leaked for environment in fresh)
    if fresh and config.designer.self_judge:
        counts = Counter(environment.judgement for environment in fresh)
        for verdict in (designer.WORKS, designer.BROKEN, designer.UNKNOWN):
            metrics[f"judge/{verdict}"] = counts[verdict]
    if config.yardstick.enabled:
        metrics |= _yardstick(live)
    if rooms.server is not None:
        metrics |= _remote(rooms)
    return metrics


def _accepted(environments: Sequence[Environment]) -> list[Environment]:
    return [environment for environment in environments if environment.accepted]


def _seeds(rooms: Rooms, environments: Sequence[Environment], what: str) -> list[int]:
    return [seeding.derive(rooms.config.seed, e.name, what) for e in environments]


def _asking(rooms: Rooms, section: str) -> Ask:
    """Who answers for `hints` or `audit`: the designer's engine, or the server."""
    how = rooms.config[section]
    if how.source == "external":
        return designer.asking_server(rooms.server, section, how.temperature, how.max_new_tokens)
    policy = rooms.config.designer
    settings = PlaySettings(
        how.temperature, 1, how.max_new_tokens, policy.top_k, policy.top_p
    )
    chat = rooms.language.chats["designer"]
    return designer.asking_model(rooms.engines["designer"], chat, settings)


def _check_leaks(rooms: Rooms, drafts: Sequence[Environment]) -> None:
    hints, inline = rooms.config.hints, rooms.config.hints.source == "inline"
    seeds = [seeding.derive(rooms.config.seed, "leak", k) for k in range(hints.leak_seeds)]
    designer.check_leaks(
        rooms.pool, drafts, seeds, hints.leak_share, rooms.config.agent.max_turns
    )
    for draft in drafts:
        if not draft.leaked:
            continue
        if hints.on_leak == "drop":
            draft.hint = ""
        else:
            reject = draft.reject if inline else draft.excuse
            reject("hint_leak", f"the hint holds the answer: {draft.hint}")


def _yardstick(live: Sequence[Environment]) -> statistics.Metrics:
    """Of the environments that are played in this step, whenever they were measured."""
    skills: dict[str, list[float]] = {}
    for environment in live:
        skills.setdefault(environment.skill, []).extend(environment.yardstick)
    means = {
        f"yardstick/win_rate/{statistics.slug(skill)}": statistics.mean(returns)
        for skill, returns in sorted(skills.items())
        if skill
    }
    means["yardstick/win_rate"] = statistics.mean([*itertools.chain(*skills.values())])
    return {name: value for name, value in means.items() if value is not None}


def _remote(rooms: Rooms) -> statistics.Metrics:
    own = {
        purpose: msgspec.structs.asdict(use) for purpose, use in rooms.server.take_use().items()
    }
    shares = rooms.hosts.all("the use of the server", [own, rooms.server.refusing])
    uses = [{p: Use(**use) for p, use in share.items()} for share, _ in shares]
    refusing = sum(refuses for _, refuses in shares) / len(shares)
    return use_metrics(uses, rooms.server.settings.prices) | {"remote/breaker_open": refusing}
