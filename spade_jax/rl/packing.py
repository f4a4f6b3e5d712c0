"""Trajectories into fixed-shape rows. Everything here is numpy on the host."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spade_jax.rollout import Trajectory


class PackingError(ValueError):
    """A trajectory is longer than a row."""


class Batch(NamedTuple):
    """One micro-batch of packed rows, all arrays `[R, T]`. Position t predicts `targets[t]`.

    Attributes:
        tokens, positions: model input, int32.
        segment_ids: 0 is padding, trajectories of one row are numbered from 1, int32.
        targets: the token that follows, int32.
        weights: share of the target in the loss; 0 where this model did not sample it, fp32.
        advantages: of the target's trajectory, fp32.
        logprobs: of the target under the sampling policy, fp32.
    """

    tokens: np.ndarray
    positions: np.ndarray
    segment_ids: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    advantages: np.ndarray
    logprobs: np.ndarray


def token_weights(
    trajectories: Sequence[Trajectory], aggregation: str, episodes: Sequence[int] | None = None
) -> list[float]:
    """Weight of each trajectory's sampled tokens, so that the batch's weights sum to 1.

    "trajectory" is the mean over episodes of the mean over their sampled tokens, "token" the mean
    over all sampled tokens (paper, section 5). An episode's tokens weigh the same whether they
    stand in one trajectory or, where a chat template rewrites history, in several; a token's weight
    depends on its episode's length, never on its turn's. Without sampled tokens the weight is 0.

    Args:
        episodes: number of the episode that each trajectory belongs to; None: each has its own.
    """
    sampled = [trajectory.num_sampled() for trajectory in trajectories]
    if aggregation == "token":
        return [1.0 / max(1, sum(sampled))] * len(sampled)
    owners = range(len(sampled)) if episodes is None else episodes
    totals: Counter[int] = Counter()
    for owner, count in zip(owners, sampled, strict=True):
        totals[owner] += count
    counted = sum(total > 0 for total in totals.values())
    return [1.0 / (counted * totals[owner]) if totals[owner] else 0.0 for owner in owners]


def first_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Rows of indices whose lengths sum to at most `capacity`, longest first."""
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        row = next((r for r, left in enumerate(room) if left >= lengths[index]), None)
        if row is None:
            rows.append([])
            room.append(capacity)
            row = len(rows) - 1
        rows[row].append(index)
        room[row] -= lengths[index]
    return rows


def pack(
    trajectories: Sequence[Trajectory],
    advantages: Sequence[float],
    weights: Sequence[float],
    rows: int,
    length: int,
    shuffle: np.random.Generator | None = None,
) -> Iterator[Batch]:
    """Micro-batches of `rows` rows of `length` positions that together hold every trajectory.

    Args:
        advantages: one per trajectory.
        weights: per sampled token of each trajectory, see `token_weights`.
        shuffle: draws the order of the rows, which is else from the longest trajectory to the
            shortest. That does not matter to a sum of gradients, but to steps along the way.

    Raises:
        PackingError: a trajectory has more than `length` + 1 tokens or fewer than two.
    """
    lengths = [len(trajectory.tokens) - 1 for trajectory in trajectories]
    if lengths and min(lengths) < 1:
        raise PackingError("a trajectory of fewer than two tokens has nothing to train")
    if lengths and max(lengths) > length:
        raise PackingError(f"a trajectory of {max(lengths) + 1} tokens, rows hold {length + 1}")
    plan = first_fit(lengths, length)
    if shuffle is not None:
        plan = [plan[row] for row in shuffle.permutation(len(plan))]
    for start in range(0, len(plan), rows):
        batch = empty(rows, length)
        for row, members in enumerate(plan[start : start + rows]):
            column = 0
            for segment, index in enumerate(members, start=1):
                here = (row, slice(column, column + lengths[index]))
                _place(batch, here, segment, trajectories[index])
                mask = np.asarray(trajectories[index].mask[1:], np.float32)
                batch.weights[here] = mask * weights[index]
                batch.advantages[here] = advantages[index]
                column += lengths[index]
        yield batch


def empty(rows: int, length: int) -> Batch:
    """A batch of padding."""
    ints, floats = np.zeros((4, rows, length), np.int32), np.zeros((3, rows, length), np.float32)
    tokens, positions, segment_ids, targets = ints
    return Batch(tokens, positions, segment_ids, targets, *floats)


def _place(batch: Batch, here, segment: int, trajectory: Trajectory) -> None:
    tokens = np.asarray(trajectory.tokens, np.int32)
    batch.tokens[here] = tokens[:-1]
    batch.targets[here] = tokens[1:]
    batch.positions[here] = np.arange(len(tokens) - 1)
    batch.segment_ids[here] = segment
    batch.logprobs[here] = trajectory.logprobs[1:]
