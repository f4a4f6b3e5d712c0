"""Gathering evidence: each round plays scripted episodes of many programs side by side."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from sandbox_runner.pool import BlockingPool
from sandbox_runner.protocol import Episode, Transcript
from sandbox_runner.tool_schemas import read_tools
from sandbox_runner.types import EnvError, Session
from sandbox_runner.validation import probes, tool_probes
from sandbox_runner.validation.evidence import CALLS, REPLIES, Evidence, won

_DONORS = (0, 1)  # seeds whose solutions are replayed on all others
_KINDS = (REPLIES, CALLS)
_CALLED_WITH = "; tools were also called with numbers like 10**12 and long texts: bound their work"
Take = Callable[[list[Transcript]], None]


class Script:
    """The plays of one round and where their transcripts go.

    `called_with` is said besides where tools were called and a limit was reached.
    """

    def __init__(self, pool: BlockingPool, called_with: str = "") -> None:
        self._pool = pool
        self._called_with = called_with
        self._plays: list[tuple[Evidence, list[Episode], bool, Take]] = []

    def add(
        self, evidence: Evidence, episodes: list[Episode], take: Take, interleaved: bool = False
    ) -> None:
        if episodes:
            self._plays.append((evidence, episodes, interleaved, take))

    def run(self) -> None:
        """Play everything. A program's first error becomes its rejection."""
        results = self._pool.play([(episodes, mixed) for _, episodes, mixed, _ in self._plays])
        for (evidence, _, _, take), result in zip(self._plays, results, strict=True):
            if isinstance(result, EnvError):
                besides = self._called_with if evidence.tools and result.stage == "limits" else ""
                evidence.rejection = evidence.rejection or (result.stage, result.detail + besides)
            else:
                take(evidence.count(result))


def load(pool: BlockingPool, batch: Sequence[Evidence]) -> None:
    """A fresh child under each hash seed; the second only for what the first could load."""
    pool.start(1)
    for attribute, hash_seed in (("session", 0), ("elsewhere", 1)):
        sound = [evidence for evidence in batch if evidence.rejection is None]
        sources = [evidence.source for evidence in sound]
        _opened(sound, attribute, pool.open_fresh(sources, batch[0].max_turns, hash_seed))


def fresh(pool: BlockingPool, batch: Sequence[Evidence]) -> None:
    """The same probes in both children, as the first thing each of them does.

    What fails in the first is not played in the second: a hang is paid for once.
    """
    homes = (("fresh", "session"), ("fresh_elsewhere", "elsewhere"))
    for kind, (attribute, home) in itertools.product(_KINDS, homes):
        script = Script(pool, _CALLED_WITH if kind == CALLS else "")
        for evidence in batch:
            if evidence.rejection is None and (actions := evidence.probe_episode(kind)):
                episode = _episode(getattr(evidence, home), evidence.seeds[0], actions)
                script.add(evidence, [episode], _last_of(getattr(evidence, attribute), kind))
        script.run()


def crowded(pool: BlockingPool, batch: Sequence[Evidence]) -> None:
    """The fresh episode again, turn by turn with one of another instance and another seed."""
    _opened(batch, "beside", pool.open_beside([evidence.session for evidence in batch]))
    script = Script(pool)
    for evidence in batch:
        for kind in _KINDS if evidence.rejection is None else ():
            if actions := evidence.probe_episode(kind):
                episodes = [
                    _episode(evidence.beside, evidence.seeds[1], actions),
                    _episode(evidence.session, evidence.seeds[0], actions),
                ]
                take = _last_of(evidence.crowded, kind)
                script.add(evidence, episodes, take, interleaved=True)
    script.run()


def robust(pool: BlockingPool, batch: Sequence[Evidence]) -> None:
    """Each probe as the first action of an episode, and again after another one."""
    script = Script(pool, _CALLED_WITH)
    for evidence in batch:
        episodes = [
            _episode(evidence.session, evidence.seeds[0], [probe, probes.BOXED_NUMBER, probe])
            for probe in (*probes.PROBES, *tool_probes.replies(evidence.tools))
        ]
        script.add(evidence, episodes, lambda transcripts: None)
    script.run()


def starts(pool: BlockingPool, batch: Sequence[Evidence]) -> None:
    """First observation and reference solution of every seed."""
    script = Script(pool)
    for evidence in batch:
        episodes = [Episode(evidence.session.id, seed, [], True) for seed in evidence.seeds]
        script.add(evidence, episodes, _attribute(evidence, "starts"))
        episode = Episode(evidence.elsewhere.id, evidence.seeds[1], [], True)
        script.add(evidence, [episode], _single(evidence, "start_elsewhere"))
    script.run()


def solve(pool: BlockingPool, batch: Sequence[Evidence]) -> None:
    """The reference solution as one action, then, where that does not win, line by line; with tools
    the other way round, so that each call is seen to be answered."""
    for attempt in range(2):
        script = Script(pool)
        for evidence in batch:
            if evidence.rejection is None and evidence.has_solution:
                _add_solutions(script, evidence, attempt)
        script.run()
    script = Script(pool)
    for evidence in batch:
        if evidence.rejection is None and evidence.has_solution:
            episode = _episode(
                evidence.elsewhere, evidence.seeds[1], evidence.solution_actions[1]
            )
            script.add(evidence, [episode], _single(evidence, "solved_elsewhere"))
    script.run()


def _add_solutions(script: Script, evidence: Evidence, attempt: int) -> None:
    split = bool(evidence.tools) != bool(attempt)
    if attempt == 0:
        evidence.solved = [None] * len(evidence.seeds)
        evidence.solution_actions = [[] for _ in evidence.seeds]
    tried = []
    for i, text in enumerate(evidence.solutions):
        lines = probes.solution_lines(text or "")
        if won(evidence.solved[i]) or not lines or (split and len(lines) == 1):
            continue
        whole = [text.strip()] if not split else lines
        actions = [probes.as_action(line) for line in whole][: evidence.max_turns]
        tried.append((i, actions))

    def take(transcripts: list[Transcript]) -> None:
        for (i, actions), transcript in zip(tried, transcripts, strict=True):
            if attempt == 0 or split or won(transcript):  # else line by line says more
                evidence.solved[i], evidence.solution_actions[i] = transcript, actions

    episodes = [_episode(evidence.session, evidence.seeds[i], actions) for i, actions in tried]
    script.add(evidence, episodes, take)


def blind(pool: BlockingPool, batch: Sequence[Evidence]) -> None:
    """Policies that ignore the observation, and solutions replayed on other seeds."""
    script = Script(pool)
    for evidence in batch:
        policies = _policies(evidence)
        for name in policies[0]:
            episodes = [
                _episode(evidence.session, seed, actions.get(name, []))
                for seed, actions in zip(evidence.seeds, policies, strict=True)
            ]
            script.add(evidence, episodes, _into(evidence.blind, name))
        for donor in _DONORS:
            if evidence.solved and won(evidence.solved[donor]):
                actions = evidence.solution_actions[donor]
                others = [seed for i, seed in enumerate(evidence.seeds) if i != donor]
                episodes = [_episode(evidence.session, seed, actions) for seed in others]
                script.add(evidence, episodes, evidence.replays.append)
    script.run()


def _policies(evidence: Evidence) -> list[dict[str, list[str]]]:
    """Of each seed: what tools can be called with may be another with each."""
    games = probes.policies(evidence.max_turns, evidence.seeds[0])
    return [
        games | tool_probes.policies(read_tools(start.tools or "[]"), evidence.max_turns)
        for start in evidence.starts
    ]


def last(pool: BlockingPool, batch: Sequence[Evidence]) -> None:
    """The fresh episode once more, after all the others; with tools, two solved ones side by side
    too: what tools change is seen by their right use."""
    script = Script(pool)
    for evidence in batch:
        for kind in _KINDS:
            if actions := evidence.probe_episode(kind):
                episode = _episode(evidence.session, evidence.seeds[0], actions)
                script.add(evidence, [episode], _last_of(evidence.last, kind))
        if evidence.tools and evidence.has_solution:
            episodes = [
                _episode(session, evidence.seeds[i], evidence.solution_actions[i])
                for i, session in enumerate((evidence.beside, evidence.session))
            ]
            script.add(evidence, episodes, _attribute(evidence, "solved_last"), interleaved=True)
    script.run()


def _opened(
    batch: Sequence[Evidence], attribute: str, results: Sequence[Session | EnvError]
) -> None:
    for evidence, result in zip(batch, results, strict=True):
        if isinstance(result, EnvError):
            evidence.rejection = evidence.rejection or (result.stage, result.detail)
        else:
            setattr(evidence, attribute, result)


def _episode(session: Session, seed: int, actions: list[str]) -> Episode:
    return Episode(session.id, seed, actions)


def _single(evidence: Evidence, attribute: str) -> Take:
    return lambda transcripts: setattr(evidence, attribute, transcripts[-1])


def _last_of(target: dict[str, Transcript], kind: str) -> Take:
    return lambda transcripts: target.__setitem__(kind, transcripts[-1])


def _attribute(evidence: Evidence, attribute: str) -> Take:
    return lambda transcripts: setattr(evidence, attribute, transcripts)


def _into(target: dict[str, list[Transcript]], name: str) -> Take:
    return lambda transcripts: target.__setitem__(name, transcripts)
