"""The rules that evidence is judged by: each returns one line that says what is broken, or None.

`parse`, `load`, `contract`, `robustness` and `limits` are not here: they show as EnvError values
while evidence is gathered, at whatever point that is.
"""

from __future__ import annotations

from sandbox_runner.protocol import Transcript
from sandbox_runner.tool_use import ERROR
from sandbox_runner.validation import tool_probes
from sandbox_runner.validation.evidence import Evidence, ended, win_rate, won
from sandbox_runner.validation.probes import secret_of, shows

TRIVIAL_RATE = 0.5
LEAK_RATE = 0.8
_BETWEEN = "\n\0\n"  # texts that are looked through together: no answer goes over it
_MOST_TOLD = 1 << 20  # characters on the way of one seed that are looked through


def determinism(evidence: Evidence) -> str | None:
    """Equal transcripts in fresh processes with different hash seeds."""
    pairs = (
        *((there, evidence.fresh_elsewhere.get(kind)) for kind, there in evidence.fresh.items()),
        (evidence.starts[1] if evidence.starts else None, evidence.start_elsewhere),
        (evidence.solved[1] if evidence.solved else None, evidence.solved_elsewhere),
    )
    for here, there in pairs:
        if here is not None and there is not None and (where := difference(here, there)):
            return (
                f"the same seed and actions gave another episode in another process ({where}): "
                "draw from random only after seeding it in reset, and never use hash(), id(), "
                "the clock or the order of a set"
            )
    return None


def isolation(evidence: Evidence) -> str | None:
    """A transcript does not change because other episodes or instances share the process.

    A program that draws from a small range without seeding can pass `determinism` by luck and end
    here, so the reason names both causes.
    """
    pairs = [
        (evidence.fresh[kind], crowded)
        for transcripts in (evidence.crowded, evidence.last)
        for kind, crowded in transcripts.items()
    ]
    pairs += zip(evidence.solved, evidence.solved_last, strict=False)
    for alone, crowded in pairs:
        if where := difference(alone, crowded):
            return (
                f"an earlier episode or another instance changed an episode ({where}): keep all "
                "state on self and set all of it in reset, none on the class or the module, and "
                "draw from random only after seeding it in reset"
            )
    return None


def termination(evidence: Evidence) -> str | None:
    still_open = [kind for kind, transcript in evidence.fresh.items() if not ended(transcript)]
    if not still_open:
        return None
    return (
        f"an episode of arbitrary {still_open[0]} was still open after {evidence.max_turns} turns: "
        "count every step, also malformed actions, and truncate at self.max_turns"
    )


def solution(evidence: Evidence) -> str | None:
    """The reference solution, where given, wins on most seeds."""
    if not evidence.has_solution:
        return None
    wins = sum(won(transcript) for transcript in evidence.solved)
    if wins > len(evidence.seeds) // 2:
        return _only_errors(evidence)
    lost = next(i for i, t in enumerate(evidence.solved) if not won(t))
    transcript = evidence.solved[lost]
    end = transcript.turns[-1].observation if transcript and transcript.turns else "no action"
    return (
        f"solution() won on {wins} of {len(evidence.seeds)} seeds; on seed "
        f"{evidence.seeds[lost]} {_short(evidence.solutions[lost] or 'None')} ended with "
        f"{_short(end)}"
    )


def _only_errors(evidence: Evidence) -> str | None:
    """An answer that is right proves nothing about tools of which none ever works."""
    results = [
        text
        for transcript in evidence.solved
        for turn in (transcript.turns if transcript else ())
        for text in turn.tool_results or ()
    ]
    if not results or not all(text.startswith(ERROR) for text in results):
        return None
    return f"every call of solution() is answered with an error: {_short(results[0])}"


def constant(evidence: Evidence) -> str | None:
    """Without a solution, equal first observations may still hide different tasks."""
    if not evidence.has_solution:
        return None
    tasks = {(start.first, start.solution) for start in evidence.starts}
    if len(tasks) > 1:
        return None
    return f"all {len(evidence.seeds)} seeds give the same task: use the seed in reset"


def trivial(evidence: Evidence) -> str | None:
    """A policy that ignores the observation must not win on half of the seeds."""
    names = {
        "empty": "an empty reply",
        "word": "a random word",
        "format": "an empty box",
        "number": r"\boxed{0} every time",
        "no_answer": "an empty answer",
        "zero": "the answer 0",
        "calls": "calling every tool without arguments",
        "wrong": "wrong calls alone",
        "plausible": "calling every tool with its first choices",
        "sweep": "calling every tool with all its choices",
    }
    rates = {names[name]: win_rate(t) for name, t in evidence.blind.items()}
    replayed = [win_rate(replay) for replay in evidence.replays]
    rates["one seed's solution on the other seeds"] = max(replayed, default=0.0)
    policy, rate = max(rates.items(), key=lambda item: item[1])
    if rate < TRIVIAL_RATE:
        return None
    return f"{policy} wins on {rate:.0%} of the seeds: reward only what needs the observation"


def leak(evidence: Evidence) -> str | None:
    """The answer is not shown where the Agent can still use it."""
    if not evidence.has_solution:
        return None
    shown = {
        "the first observation": [start.first for start in evidence.starts],
        "a tool's description": _told_of_tools(evidence),
        "a reply to a wrong action": [_later(evidence, i) for i in range(len(evidence.seeds))],
    }
    seen = [0] * len(evidence.seeds)
    where = ""
    has_tools = bool(evidence.tools)
    answers = [secret_of(solution or "", has_tools) for solution in evidence.solutions]
    for place, texts in shown.items():
        for i, answer in enumerate(answers):
            if not seen[i] and shows(texts[i], answer):
                seen[i], where = 1, where or place
    if sum(seen) < LEAK_RATE * len(seen):
        return None
    return f"{where} states the whole answer on {sum(seen)} of {len(seen)} seeds"


def _told_of_tools(evidence: Evidence) -> list[str]:
    """Of each seed, without what the schemas of all seeds say: that tells no task from another."""
    told = [tool_probes.texts(start.tools) for start in evidence.starts]
    common = set(told[0]).intersection(*told[1:])
    return [_BETWEEN.join(text for text in texts if text not in common) for texts in told]


def _later(evidence: Evidence, i: int) -> str:
    """What policies were told on the way on one seed. What a tool says when it is called is left
    out: it is for the Agent to use."""
    told = dict.fromkeys(
        turn.observation
        for policy, transcripts in evidence.blind.items()
        if policy not in tool_probes.CALLING
        for turn in transcripts[i].turns
        if not (turn.terminated or turn.truncated)
    )
    return _BETWEEN.join(told)[:_MOST_TOLD]


def difference(one: Transcript, other: Transcript) -> str | None:
    """Where two transcripts part, None when they are equal."""
    if one.first != other.first:
        return "in the first observation"
    if one.tools != other.tools:
        return "in get_tools()"
    if one.solution != other.solution:
        return "in solution()"
    for turn, (a, b) in enumerate(zip(one.turns, other.turns, strict=False), start=1):
        if a != b:
            return f"in turn {turn}"
    if len(one.turns) != len(other.turns):
        return f"in turn {min(len(one.turns), len(other.turns)) + 1}"
    return None


def _short(text: str, limit: int = 80) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= limit else line[: limit - 3] + "...")
