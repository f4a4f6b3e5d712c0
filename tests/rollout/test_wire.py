"""Episodes as bytes: nothing is lost on the way to another process."""

import numpy as np
import pytest

from sandbox_runner import EnvError
from spade_jax.designer import DESIGNS, Environment
from spade_jax.rollout import EPISODES, Episode, PackedRow, PlaySettings, Task, Trajectory
from spade_jax.text import Message, ToolCall

SETTINGS = PlaySettings(0.7, 3, 8, stop_strings=("x",))


def row(seed, turns=2):
    rng, made = np.random.default_rng(seed), Trajectory(temperature=0.7)
    for _ in range(turns):
        made.append_context(rng.integers(0, 150_000, 5).tolist())
        said = rng.integers(0, 150_000, 3).tolist()
        made.append_sampled(said, rng.normal(size=3).astype(np.float32).tolist(), 4)
    return made


def test_a_row_comes_back_equal_in_few_bytes():
    made = row(0, turns=500)
    made.mark_malformed()
    packed = PackedRow.of(made)
    assert packed.row() == made
    assert len(packed.tokens) + len(packed.mask) + len(packed.logprobs) == 4000 * 4 + 500 + 1500 * 4


@pytest.mark.parametrize("empty", [Trajectory(), Trajectory([5], [0], [0.0])])
def test_a_row_without_sampled_tokens_comes_back_equal(empty):
    assert PackedRow.of(empty).row() == empty


def test_episodes_come_back_equal_but_for_their_place():
    call = ToolCall("look", {"where": ["north", 2]})
    won = Episode(
        Task("here", 3, 4, SETTINGS, (Message("system", "Play."),)), [row(1), row(2)],
        [Message("user", "é"), Message("assistant", "\\boxed{7}", (call,), "hm")], "terminated",
        0.1, tools=({"type": "function", "function": {"name": "look", "most": 10**30}},),
    )  # fmt: skip
    won.trajectories[1].mark_malformed()
    void = Episode(Task("there", 5, 6, SETTINGS), outcome="void", error=EnvError("load", "no"))
    (got, again), none = EPISODES.decode(EPISODES.encode([[won, void], []]))
    assert none == []
    for before, after in ((won, got), (void, again)):
        assert after.task.place is None
        assert (after.task.seed, after.task.sample_seed) == (
            before.task.seed, before.task.sample_seed,
        )  # fmt: skip
        assert after.task.settings == before.task.settings
        assert after.task.system == before.task.system
        assert after.trajectories == before.trajectories
        assert after.transcript == before.transcript
        assert (after.outcome, after.reward) == (before.outcome, before.reward)
        assert after.tools == before.tools
    assert got.error is None and (again.error.stage, again.error.detail) == ("load", "no")


def test_designs_come_back_equal():
    design = Environment("00001-02", "logic", None, "reply", 1, row(3), "class AEnv: ...", "Try 7.")
    design.reject("parse", "why")
    assert DESIGNS.decode(DESIGNS.encode([design])) == [design]
    assert design.trajectory.num_sampled() == 6
