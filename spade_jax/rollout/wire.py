"""Episodes and rows as bytes, for other processes: nine bytes per sampled token at most."""

import msgspec
import numpy as np

from sandbox_runner import EnvError
from spade_jax.parallel import Wire
from spade_jax.rollout.play import Episode
from spade_jax.rollout.trajectory import Trajectory
from spade_jax.rollout.world import PlaySettings, Task
from spade_jax.text import Message


class PackedRow(msgspec.Struct, array_like=True):
    """A `Trajectory`: int32 tokens, the mask as bits, fp32 log-probs of the sampled tokens only."""

    tokens: bytes
    mask: bytes
    logprobs: bytes
    temperature: float
    version: int
    malformed: list[tuple[int, int]]

    @classmethod
    def of(cls, row: Trajectory) -> "PackedRow":
        mask = np.asarray(row.mask, bool)
        logprobs = np.asarray(row.logprobs, np.float32)[mask]
        return cls(
            np.asarray(row.tokens, np.int32).tobytes(), np.packbits(mask).tobytes(),
            logprobs.tobytes(), row.temperature, row.version, row.malformed,
        )  # fmt: skip

    def row(self) -> Trajectory:
        tokens = np.frombuffer(self.tokens, np.int32)
        bits = np.unpackbits(np.frombuffer(self.mask, np.uint8), count=len(tokens))
        logprobs = np.zeros(len(tokens), np.float32)
        logprobs[bits.astype(bool)] = np.frombuffer(self.logprobs, np.float32)
        return Trajectory(
            tokens.tolist(), bits.tolist(), logprobs.tolist(), self.temperature, self.version,
            self.malformed,
        )  # fmt: skip


class _PackedEpisode(msgspec.Struct, array_like=True):
    seed: int
    sample_seed: int
    settings: PlaySettings
    system: tuple[Message, ...]
    rows: list[PackedRow]
    transcript: list[Message]
    outcome: str
    reward: float
    error: tuple[str, str] | None
    tools: bytes  # JSON, whose integers may be larger than those of msgpack


def _pack(episode: Episode) -> _PackedEpisode:
    task, error = episode.task, episode.error
    return _PackedEpisode(
        task.seed, task.sample_seed, task.settings, task.system,
        [PackedRow.of(row) for row in episode.trajectories], episode.transcript,
        episode.outcome, episode.reward, error and (error.stage, error.detail),
        msgspec.json.encode(episode.tools),
    )  # fmt: skip


def _unpack(packed: _PackedEpisode) -> Episode:
    return Episode(
        Task(None, packed.seed, packed.sample_seed, packed.settings, packed.system),
        [row.row() for row in packed.rows], packed.transcript, packed.outcome, packed.reward,
        packed.error and EnvError(*packed.error),
        msgspec.json.decode(packed.tools, type=tuple[dict, ...]),
    )  # fmt: skip


def _encode(groups: list[list[Episode]]) -> bytes:
    return msgspec.msgpack.encode([[_pack(episode) for episode in group] for group in groups])


def _decode(data: bytes) -> list[list[Episode]]:
    groups = msgspec.msgpack.decode(data, type=list[list[_PackedEpisode]])
    return [[_unpack(packed) for packed in group] for group in groups]


EPISODES = Wire(_encode, _decode)  # of `list[list[Episode]]`; a task's place stays where it was
