"""What validation has seen of one program so far."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import msgspec

from sandbox_runner.protocol import Played, Transcript
from sandbox_runner.tool_schemas import read_tools
from sandbox_runner.types import Session, Verdict
from sandbox_runner.validation import probes, tool_probes

REPLIES, CALLS = "replies", "calls"  # the two kinds of probes


@dataclass
class Evidence:
    """Filled round by round; stages only read it. Lists over seeds follow `seeds`.

    `session` and `beside` are two instances in one child; `elsewhere` lives in another child
    under another hash seed. `replays` has one list per seed whose solution was replayed. What
    fixed probes gave stands under their kind; calls are tried on programs with tools alone.
    """

    source: str
    max_turns: int
    seeds: tuple[int, ...]
    session: Session | None = None
    beside: Session | None = None
    elsewhere: Session | None = None
    fresh: dict[str, Transcript] = field(default_factory=dict)
    fresh_elsewhere: dict[str, Transcript] = field(default_factory=dict)
    crowded: dict[str, Transcript] = field(default_factory=dict)
    starts: list[Transcript] = field(default_factory=list)
    start_elsewhere: Transcript | None = None
    solved: list[Transcript | None] = field(default_factory=list)
    solution_actions: list[list[str]] = field(default_factory=list)
    solved_elsewhere: Transcript | None = None
    solved_last: list[Transcript] = field(default_factory=list)
    blind: dict[str, list[Transcript]] = field(default_factory=dict)
    replays: list[list[Transcript]] = field(default_factory=list)
    last: dict[str, Transcript] = field(default_factory=dict)
    cpu: float = 0.0
    calls: int = 0
    shareable: bool = False
    rejection: tuple[str, str] | None = None

    @property
    def tools(self) -> tuple[dict, ...]:
        """The schemas of the first reset."""
        text = self.fresh[REPLIES].tools if REPLIES in self.fresh else ""
        return read_tools(text) if text else ()

    def probe_episode(self, kind: str) -> list[str]:
        """The actions of one kind; none where the program has no use for them."""
        if kind == REPLIES:
            return probes.probe_episode(self.max_turns)
        return tool_probes.call_episode(self.tools, self.max_turns)

    @property
    def solutions(self) -> list[str | None]:
        return [start.solution for start in self.starts]

    @property
    def has_solution(self) -> bool:
        return any(solution is not None for solution in self.solutions)

    def sessions(self) -> list[Session]:
        return [s for s in (self.session, self.beside, self.elsewhere) if s is not None]

    def count(self, played: Played) -> list[Transcript]:
        self.cpu += played.cpu
        self.calls += played.calls
        return played.transcripts

    def verdict(self) -> Verdict:
        stage, reason = self.rejection or (None, "")
        found = measurements(self), behaviour(self.fresh)
        return Verdict(stage is None, stage, reason, self.shareable, *found)


def won(transcript: Transcript | None) -> bool:
    """Whether the episode terminated with a positive reward."""
    if transcript is None or not transcript.turns:
        return False
    return transcript.turns[-1].terminated and transcript.turns[-1].reward > 0


def ended(transcript: Transcript) -> bool:
    return bool(transcript.turns) and (
        transcript.turns[-1].terminated or transcript.turns[-1].truncated
    )


def win_rate(transcripts: list[Transcript | None]) -> float:
    return sum(won(t) for t in transcripts) / len(transcripts) if transcripts else 0.0


def behaviour(answered: Transcript | None) -> str:
    """A digest of what was answered; empty where nothing was."""
    return hashlib.sha256(msgspec.json.encode(answered)).hexdigest()[:16] if answered else ""


def measurements(evidence: Evidence) -> dict[str, float]:
    """Only what has been seen: a program that is rejected early has few of them."""
    found: dict[str, float] = {}
    if evidence.calls:
        found["cpu_ms_per_call"] = 1e3 * evidence.cpu / evidence.calls
    fresh = evidence.fresh.get(REPLIES)
    if fresh is not None:
        sizes = [len(fresh.first), *(len(turn.observation) for turn in fresh.turns)]
        found["observation_chars_mean"] = sum(sizes) / len(sizes)
        found["observation_chars_max"] = float(max(sizes))
        found["probe_turns"] = float(len(fresh.turns))
    if evidence.solved:
        found["win_solution"] = win_rate(evidence.solved)
        turns = [len(t.turns) for t in evidence.solved if won(t)]
        if turns:
            found["solution_turns"] = sum(turns) / len(turns)
    for name, transcripts in evidence.blind.items():
        found[f"win_{name}"] = win_rate(transcripts)
    if evidence.replays:
        found["win_replay"] = max(win_rate(replay) for replay in evidence.replays)
    return found
