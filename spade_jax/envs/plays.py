"""Many plays of many environments in one go: training arms and evaluation alike."""

import dataclasses
from collections.abc import Sequence

from sandbox_runner import BlockingPool, Session
from spade_jax.envs.world import SandboxWorld, Seat
from spade_jax.parallel import Hosts
from spade_jax.prompts import Prompts
from spade_jax.rollout import EPISODES, Episode, PlaySettings, Task, play
from spade_jax.sampler import Engine
from spade_jax.text import ChatRenderer


@dataclasses.dataclass(frozen=True)
class PlayRequest:
    """One play: the environment's seed, the sampler's noise seed, and the hint or None."""

    seed: int
    sample_seed: int
    hint: str | None = None


@dataclasses.dataclass(frozen=True)
class Program:
    """One environment and the plays that are wanted of it."""

    source: str
    shareable: bool
    plays: tuple[PlayRequest, ...]


class Player:
    """Plays programs with one engine, chat format and sandbox pool in each process."""

    def __init__(
        self, engine: Engine, chat: ChatRenderer, pool: BlockingPool, prompts: Prompts,
        hosts: Hosts, hint_style: str = "append",
    ):  # fmt: skip
        """`hint_style`: one of HINT_STYLES."""
        self._engine, self._chat, self._pool, self._prompts = engine, chat, pool, prompts
        self._hosts, self._hint_style = hosts, hint_style

    def play(self, programs: Sequence[Program], settings: PlaySettings) -> list[list[Episode]]:
        """The episodes of each program, in the order of its plays. What is played by another
        process comes without the task's `place`.

        Raises:
            RunnerError: the sandbox has failed.
            HostError: see `Hosts.all`.
        """
        return self._hosts.spread(
            "plays", lambda share: self._play(share, settings), programs, EPISODES
        )

    def _play(self, programs: Sequence[Program], settings: PlaySettings) -> list[list[Episode]]:
        wanted = [(program, request) for program in programs for request in program.plays]
        with self._engine.waiting():
            sessions = self._pool.open(
                [program.source for program, _ in wanted],
                [program.shareable for program, _ in wanted],
                settings.max_turns,
            )
        tasks = [
            Task(Seat(session, request.hint), request.seed, request.sample_seed, settings)
            for session, (_, request) in zip(sessions, wanted, strict=True)
        ]
        try:
            world = SandboxWorld(self._pool, self._prompts, self._hint_style)
            episodes = iter(play(self._engine, self._chat, world, tasks))
        finally:
            self._pool.close([session for session in sessions if isinstance(session, Session)])
        return [[next(episodes) for _ in program.plays] for program in programs]
