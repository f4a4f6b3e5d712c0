"""The numbers of one step, all computed from what happened in it."""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from spade_jax.designer import Environment, Memory, coverage, entropy
from spade_jax.parallel import Hosts
from spade_jax.rl import SkillAverages
from spade_jax.rollout import Episode
from spade_jax.sampler import Engine, Stats

EASY, HARD = 0.8, 0.2  # win rates above and below which an environment is trivial or hard

PER_SKILL = (
    "designer/valid_fraction",
    "designer/regret",
    "designer/trivial_fraction",
    "designer/in_band_fraction",
    "designer/hard_fraction",
    "agent/win_rate",
    "agent/win_rate_hint",
)

Metrics = dict[str, float]
Played = dict[str, list[list[Episode]]]  # arm, "plain" or "hint" -> per environment, its episodes


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def designs(attempts: Sequence[Environment]) -> Metrics:
    """What the designer wrote this step; empty when it wrote nothing."""
    if not attempts:
        return {}
    rejections = Counter(attempt.stage for attempt in attempts if attempt.stage)
    later = (None, "audit", "degenerate", "off_skill", "hint_leak")  # the sandbox found nothing
    valid = [attempt for attempt in attempts if attempt.excused or attempt.stage in later]
    metrics = {
        "designer/designs": len(attempts),
        "designer/valid_fraction": len(valid) / len(attempts),
        "designer/accepted_fraction": mean([attempt.accepted for attempt in attempts]),
        "designer/distinct_fraction": len({a.source for a in attempts}) / len(attempts),
        "designer/reply_tokens": mean([a.trajectory.num_sampled() for a in attempts]),
    }
    metrics["designer/cut_fraction"] = mean([a.stage in ("cut", "context") for a in attempts])
    metrics |= {f"designer/rejected/{stage}": n for stage, n in sorted(rejections.items())}
    if shown := [attempt for attempt in attempts if attempt.first_stage]:
        metrics["designer/repaired_fraction"] = mean([attempt.accepted for attempt in shown])
    if valid:
        metrics["designer/novel_fraction"] = mean([not attempt.verbatim for attempt in valid])
        metrics["designer/family_entropy"] = entropy([attempt.family for attempt in valid])
    knobs = [attempt.knob for attempt in valid if attempt.knob is not None]
    if knobs:
        for name, q in (("p10", 10), ("median", 50), ("p90", 90)):
            metrics[f"designer/knob_{name}"] = float(np.percentile(knobs, q))
    return metrics


def by_skill(
    attempts: Sequence[Environment],
    fresh: Sequence[Environment],
    live: Sequence[Environment],
    episodes: Played,
) -> Metrics:
    """`PER_SKILL` of the designs and of the plays of each skill, as NAME/SKILL.

    Args:
        attempts, fresh: as `designs` and `environments` take them.
        live: those that were played; their plays are in `episodes`.
    """
    metrics: Metrics = {}
    for skill in sorted({environment.skill for environment in (*attempts, *live)} - {""}):
        places = [k for k, environment in enumerate(live) if environment.skill == skill]
        found = designs([attempt for attempt in attempts if attempt.skill == skill])
        found |= environments([born for born in fresh if born.skill == skill], [])
        if places:
            own = {arm: [groups[k] for k in places] for arm, groups in episodes.items()}
            found |= plays(own)
        metrics |= {f"{name}/{slug(skill)}": found[name] for name in PER_SKILL if name in found}
    return metrics


def averages(
    before: Mapping[str, SkillAverages], after: Mapping[str, SkillAverages]
) -> Metrics:
    """The skills' moving averages of the returns without the hint that this step has moved."""
    moved = {skill: value for skill, value in after.items() if before.get(skill) != value}
    return {
        f"designer/return_{speed}/{slug(skill)}": getattr(value, speed)
        for skill, value in sorted(moved.items())
        for speed in ("fast", "slow")
    }


def memory(records: Memory, fresh: Sequence[Environment]) -> Metrics:
    """What the memory holds, and at a step with new designs how its newest records spread."""
    metrics = {f"memory/{name}": value for name, value in records.coverage().items()}
    if fresh:
        spread = coverage(records.records).items()
        metrics |= {f"designer/coverage/{name}": value for name, value in spread}
    return metrics


def slug(skill: str) -> str:
    """A skill's name in metrics."""
    return skill.replace(" ", "_")


def environments(fresh: Sequence[Environment], due: Sequence[Environment]) -> Metrics:
    """Regret and difficulty of the environments whose two arms were played this step, and the
    rewards of the designs that are trained in it."""
    played = [plays for environment in fresh if (plays := environment.plays()) is not None]
    metrics: Metrics = {"designer/environments": len(played)}
    if played:
        wins = np.array([plays.first for plays in played])
        hard, easy = float(np.mean(wins < HARD)), float(np.mean(wins > EASY))
        metrics |= {
            "designer/regret": mean([max(0.0, plays.gap) for plays in played]),
            "designer/hint_gap": mean([plays.gap for plays in played]),
            "designer/trivial_fraction": easy,
            "designer/hard_fraction": hard,
            "designer/in_band_fraction": 1.0 - hard - easy,
        }
    if new := [environment.novelty for environment in fresh if environment.novelty is not None]:
        metrics["designer/novelty"] = mean(new)
    skills: dict[str, list[float]] = {}
    for design in due:
        if design.reward is not None:
            skills.setdefault(design.skill, []).append(design.reward)
    for skill, rewards in sorted(skills.items()):
        metrics[f"designer/reward/{slug(skill)}"] = mean(rewards)
    return metrics


def amounts(episodes: Played) -> Metrics:
    """How much was played in this step, retired environments included."""
    everything = [e for groups in episodes.values() for per_env in groups for e in per_env]
    return {
        "agent/episodes": len(everything),
        "agent/steps": sum(len(episode.replies) for episode in everything),
    }


def plays(episodes: Played) -> Metrics:
    """Win rates, lengths and truncation of this step's plays."""
    valid = {
        arm: [e for per_env in groups for e in per_env if e.outcome != "void"]
        for arm, groups in episodes.items()
    }
    plain = valid["plain"]
    everything = [e for groups in episodes.values() for per_env in groups for e in per_env]
    metrics: Metrics = {
        "agent/void_fraction": mean([e.outcome == "void" for e in everything]),
        "agent/win_rate": win_rate(plain),
        "agent/win_rate_hint": win_rate(valid["hint"]),
        "agent/turns": mean([len(e.replies) for e in plain]),
        "agent/reply_tokens": mean([e.num_sampled() for e in plain]),
        "agent/tokens_per_reply": _ratio(
            sum(e.num_sampled() for e in plain), sum(len(e.replies) for e in plain)
        ),
        "agent/cut_fraction": mean([e.unfinished for e in plain]),
        "agent/truncated_fraction": mean([e.outcome == "truncated" for e in plain]),
        "agent/malformed_fraction": malformed_fraction(plain),
    }
    return {name: value for name, value in metrics.items() if value is not None}


def sampling(engines: Mapping[str, Engine], hosts: Hosts) -> Metrics:
    """What each role's engines did since they got this step's weights, in all processes; how long
    they waited for environments is a mean over processes. How full
    the agent's slots were, and what they could share, depends on when environments answered; no
    result does."""
    metrics: Metrics = {}
    for role, engine in engines.items():
        own = dataclasses.asdict(engine.stats), engine.compiles()
        counted, programs = zip(*hosts.all(f"{role}'s engines", own), strict=True)
        stats = Stats(**{name: sum(each[name] for each in counted) for name in counted[0]})
        metrics |= {
            f"sampler/{role}/{name}": getattr(stats, name)
            for name in (
                "sampled_tokens", "prefilled_tokens", "shared_tokens", "kept_tokens",
                "parked_pages",
            )
        }  # fmt: skip
        metrics[f"sampler/{role}/slot_use"] = stats.slot_use()
        metrics[f"sampler/{role}/waited_seconds"] = stats.waited_seconds / len(counted)
        metrics[f"sampler/{role}/programs"] = max(programs)
    return metrics


def rates(metrics: Metrics, times: Metrics, speaking: Mapping[str, Sequence[str]]) -> Metrics:
    """Sampled tokens and environment steps per second of the phases that make them, and the share
    of the step in which the agent's sampler had nothing to do but wait for environments.

    Args:
        speaking: per role, the phases in which its engine samples.
    """
    counts = {
        "rate/designer_tokens": ("sampler/designer/sampled_tokens", speaking["designer"]),
        "rate/agent_tokens": ("sampler/agent/sampled_tokens", speaking["agent"]),
        "rate/environment_steps": ("agent/steps", ("play",)),
        "rate/waiting_for_environments": ("sampler/agent/waited_seconds", ("step",)),
    }
    rates = {}
    for name, (count, phases) in counts.items():
        if seconds := sum(times.get(f"time/{phase}", 0.0) for phase in phases):
            rates[name] = metrics[count] / seconds
    return rates


def _ratio(total: float, count: int) -> float | None:
    return total / count if count else None


def win_rate(episodes: Sequence[Episode]) -> float | None:
    """Mean return, which is the share of wins when rewards are 0 or 1."""
    return mean([episode.final_return for episode in episodes])


def malformed_fraction(episodes: Sequence[Episode]) -> float | None:
    """Share of the replies that no tool-use environment could read; None without tool use."""
    using = [episode for episode in episodes if episode.tools]
    replies = sum(len(episode.replies) for episode in using)
    return sum(episode.num_malformed() for episode in using) / replies if replies else None


def standard_error(values: Sequence[float]) -> float:
    """Of the mean; 0 for fewer than two values."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
